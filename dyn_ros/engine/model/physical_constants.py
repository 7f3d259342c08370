# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Constants of a robot that can be set: gravity, inertias, payloads, armature, friction, drives."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..kernel import packing
from ..kernel.names import short_repr, unknown_name
from ..kernel.types import Array, ArrayLike
from ..kernel.validation import describe_coordinate, finite_array, finite_number, require_entries
from ..spatial.inertia import Inertia
from ..spatial.se3 import SE3
from ..spatial.value import readonly_array
from .drives import Drives
from .frames import frame_number
from .inertia import AssignedInertia, Payload, link_frame, link_parameters
from .parameters import is_physical
from .structure import Structure
from .urdf import MAX_URDF_NUMBER, rotational_fault


class PhysicalConstants(Structure):
    """The constants of a robot that can be set."""

    @property
    def gravity(self) -> Array:
        """Gravity, (3,) [m/s2], expressed in the world; settable."""
        return self._floats[:3]

    @gravity.setter
    def gravity(self, value: ArrayLike) -> None:
        self._floats[:3] = finite_array("gravity", value, (3,))

    @property
    def armature(self) -> Array:
        """Rotor inertia reflected to each coordinate, (nv,) [kg m2, kg]; settable."""
        start = packing.ROWS + packing.FLOATS_ROW * (self.njoints + 1)
        return self._floats[start : start + self.nv]

    @armature.setter
    def armature(self, value: ArrayLike) -> None:
        self.armature[:] = finite_array("armature", value, (self.nv,))

    @property
    def damping(self) -> Array:
        """Viscous friction of each coordinate, (nv,) [N m s/rad, N s/m]; settable.

        Read from <dynamics> of the URDF, 0 if it is not specified there; includes the damping of
        mimic joints, reflected to their master. Only ``joint_friction`` uses it.
        """
        return self._damping

    @damping.setter
    def damping(self, value: ArrayLike) -> None:
        self._damping[:] = self._nonnegative_array("damping", value)

    @property
    def friction(self) -> Array:
        """Coulomb friction of each coordinate, (nv,) [N m, N]; settable.

        Read from the URDF as ``damping`` is, and used by ``joint_friction`` only.
        """
        return self._friction

    @friction.setter
    def friction(self, value: ArrayLike) -> None:
        self._friction[:] = self._nonnegative_array("friction", value)

    @property
    def drives(self) -> Drives:
        """Meaning of measured efforts, and friction that a URDF cannot express; settable.

        ``joint_friction``, the observers and identification use it.
        """
        return self._drives

    @drives.setter
    def drives(self, value: Drives) -> None:
        if not isinstance(value, Drives):
            raise TypeError(
                f"drives: expected Drives, got {type(value).__name__}: {short_repr(value)}"
            )
        if len(value.gain) != self.nv:
            raise ValueError(f"drives: expected nv = {self.nv}, got {len(value.gain)}")
        self._drives = value

    def _nonnegative_array(self, name: str, value: ArrayLike) -> Array:
        """Return numbers for all coordinates; raise a ValueError if one is negative or infinite."""
        array = finite_array(name, value, (self.nv,))
        require_entries(
            name,
            array,
            array >= 0.0,
            "numbers of 0 or more",
            lambda index: describe_coordinate(self, ("nv",), index),
        )
        return array

    @property
    def base_inertia(self) -> Inertia:
        """Inertia of the fixed base link and its payloads, expressed in the root frame.

        It is excluded from all totals.
        """
        return self._body_inertia(-1)

    @property
    def inertial_parameters(self) -> Array:
        """Parameters of each joint's body and its payloads, (njoints, 10); settable.

        m [kg], m cx, m cy, m cz [kg m], Ixx, Ixy, Iyy, Ixz, Iyz, Izz about the joint's origin
        [kg m2], in the joint's frame and Pinocchio's order, as in ``Inertia.dynamic_parameters``.
        All algorithms use these numbers; the dynamics is linear in them.

        Reading returns a read-only copy. Assigned parameters include the payloads, which
        remain, and can be replaced or removed. If several links are fixed to a joint, the first of
        them that has mass receives the difference. Any finite numbers are accepted, since an
        estimate need not be physical: see ``is_physical``.
        """
        return readonly_array(self._packed_inertias, (self.njoints, packing.INERTIA_ROW))

    @inertial_parameters.setter
    def inertial_parameters(self, value: ArrayLike) -> None:
        total = finite_array("inertial_parameters", value, (self.njoints, packing.INERTIA_ROW))
        require_entries(
            "inertial_parameters",
            total,
            np.abs(total) <= MAX_URDF_NUMBER,
            f"numbers of at most {MAX_URDF_NUMBER:g}",
            lambda index: describe_coordinate(self, ("njoints", packing.INERTIA_ROW), index),
        )
        self._assign(total)

    @property
    def joint_placements(self) -> Array:
        """Constant placement of each joint in its parent's frame, (njoints, 4, 4) [m]; a new array.

        ``liMi`` at zero position.
        """
        return np.array([joint.placement for joint in self.tree.joints]).reshape(-1, 4, 4)

    @property
    def is_physical(self) -> NDArray[np.bool_]:
        """True for each joint whose body, with its payloads, can exist, (njoints,) ndarray of bool.

        The pseudo-inertia is positive definite; see ``dyn_ros.is_physical``, also for bodies on
        the boundary, such as flat plates and links without mass, which are False here.
        """
        return np.asarray(is_physical(self._packed_inertias))

    @property
    def inertias(self) -> tuple[Inertia, ...]:
        """Inertia of each joint's body and its payloads, in the joint's frame; a tuple.

        Raises a ValueError if a first moment without mass was assigned, which an ``Inertia`` cannot
        express.
        """
        return tuple(self._body_inertia(joint) for joint in range(self.njoints))

    @property
    def payloads(self) -> tuple[str, ...]:
        """Names of the payloads, a tuple."""
        return tuple(self._payloads)

    def set_payload(
        self,
        name: str,
        frame: str | int,
        mass: float,
        com: ArrayLike,
        inertia: ArrayLike | None = None,
    ) -> None:
        """Attach a body to the link of a frame; all algorithms include it.

        There can be several payloads; one of the same name is replaced. A payload on the fixed
        base only affects ``base_inertia``.

        Parameters
        ----------
        name : str
            Identifies the payload.
        frame : str or int
            Name or index of the frame in which the parameters are expressed, and to whose link
            the body is attached.
        mass : float
            [kg], positive.
        com : (3,) array_like
            Center of mass in the frame [m].
        inertia : (3, 3) array_like, optional
            Rotational inertia about the center of mass, expressed in the frame [kg m2]:
            symmetric, positive definite, no principal moment above the sum of the others. Zero, the
            default, is a point mass. If it is not physical, a ValueError is raised and the payloads
            do not change.

        Raises
        ------
        ValueError
            An unknown frame (lists the valid ones), or an inertia that is not physical; the
            payloads do not change.
        """
        if not isinstance(name, str) or not name:
            raise ValueError(f"name: expected a non-empty string, got {short_repr(name)}")
        payload = self._new_payload(frame, mass, com, inertia)
        previous_payload = self._payloads.get(name, payload)
        self._payloads[name] = payload
        self._recompute_around([previous_payload, payload])

    def clear_payload(self, name: str | None = None) -> None:
        """Remove the payload of this name, or all; the original inertias are restored exactly."""
        if name is None:
            removed_payloads = list(self._payloads.values())
            self._payloads.clear()
        elif name in self._payloads:
            removed_payloads = [self._payloads.pop(name)]
        else:
            raise ValueError(unknown_name("payload", name, self._payloads))
        self._recompute_around(removed_payloads)

    def _new_payload(
        self, frame: str | int, mass: float, com: ArrayLike, inertia: ArrayLike | None
    ) -> Payload:
        """Return a payload; raise a ValueError if it is not physical."""
        mass = finite_number("mass", mass)
        center = finite_array("com", com, (3,))
        rotational = np.zeros((3, 3))
        if inertia is not None:
            rotational = finite_array("inertia", inertia, (3, 3))
        if mass <= 0.0:
            raise ValueError(f"mass: expected more than 0 kg, got {mass:g}")
        largest = max(mass, np.abs(center).max(), np.abs(rotational).max())
        if largest > MAX_URDF_NUMBER:
            raise ValueError(
                f"mass, com, inertia: too large: {mass:g} kg at {center} m; "
                f"expected numbers of at most {MAX_URDF_NUMBER:g}, got {largest:g}"
            )
        if not np.array_equal(rotational, rotational.T):
            raise ValueError(f"inertia: expected a symmetric matrix, got {rotational.tolist()}")
        fault = rotational_fault(rotational)
        is_point = not rotational.any()
        if not fault and not is_point and np.linalg.eigvalsh(rotational)[0] <= 0.0:
            fault = (
                "is not positive definite; for a point mass, all of it is 0; a small sphere of "
                "radius r, for example, has 0.4 m r^2 about each axis"
            )
        if fault:
            raise ValueError(f"inertia: of the payload {fault}")
        index = frame_number(self, frame)
        attachment = self.tree.frames[index]
        body = SE3.from_homogeneous(attachment.placement).act(Inertia(mass, center, rotational))
        return Payload(attachment.parent, body, link_frame(self.tree, index))

    # --- packed inertias

    @property
    def _packed_inertias(self) -> Array:
        """Packed inertia of the body of each joint, with payloads, (njoints, 10); a view."""
        rows = self._floats[packing.ROWS :][: packing.FLOATS_ROW * (self.njoints + 1)]
        start = packing.INERTIA
        return rows.reshape(-1, packing.FLOATS_ROW)[1:, start : start + packing.INERTIA_ROW]

    def _assign(self, total: Array) -> None:
        """Set the inertias of bodies, with payloads; those that are equal keep their exact values.

        The first link of a body that has mass gets the difference to the other links that are
        fixed to it; if none has mass, the link of the joint.
        """
        joints, frames, changed_links = list(self.tree.joints), list(self.tree.frames), []
        changed_joints = np.flatnonzero((total != self._packed_inertias).any(-1)).tolist()
        for joint in changed_joints:
            parameters = total[joint] - sum(
                inertia.dynamic_parameters() for inertia in self._payload_inertias(joint)
            )
            joints[joint] = replace(joints[joint], inertia=AssignedInertia.from_array(parameters))
            receiver, *remaining_links = sorted(
                (
                    i
                    for i, frame in enumerate(frames)
                    if frame.kind == "body" and frame.parent == joint
                ),
                key=lambda i: frames[i].inertia.mass == 0.0,
            )
            inertia = AssignedInertia.from_array(
                parameters - sum(link_parameters(frames[i]) for i in remaining_links)
            )
            placement = SE3.from_homogeneous(frames[receiver].placement)
            frames[receiver] = replace(frames[receiver], inertia=placement.act_inverse(inertia))
            changed_links.append(receiver)
        self.tree = replace(self.tree, joints=tuple(joints), frames=tuple(frames))
        self._recompute(changed_joints, changed_links)

    def _payload_inertias(self, joint: int) -> list[Inertia]:
        """Return the inertias of the payloads that a joint moves; -1: the fixed base."""
        return [payload.inertia for payload in self._payloads.values() if payload.joint == joint]

    def _body_inertia(self, joint: int) -> Inertia:
        """Return the inertia of the body of a joint, -1 for the fixed base, with its payloads."""
        body_inertia = self.tree.joints[joint].inertia if joint >= 0 else self.tree.base_inertia
        total = sum(self._payload_inertias(joint), body_inertia)
        return total.plain() if isinstance(total, AssignedInertia) else total

    def _recompute_around(self, payloads: Collection[Payload]) -> None:
        """Recompute the inertias to which these payloads belong or belonged."""
        self._recompute(
            {payload.joint for payload in payloads if payload.joint >= 0},
            {payload.frame for payload in payloads},
        )

    def _recompute(self, joints: Iterable[int], frames: Iterable[int]) -> None:
        """Recompute the inertias of these bodies and links.

        Sums of packed inertias, about the joint's origin, start from the description each time, so
        that removed payloads leave no rounding errors.
        """
        start = (
            packing.ROWS
            + packing.FLOATS_ROW * (self.njoints + 1)
            + self.nv
            + packing.FRAME_ROW * self.nframes
        )
        for index in frames:
            on_link = [
                payload.inertia.dynamic_parameters()
                for payload in self._payloads.values()
                if payload.frame == index
            ]
            row = start + packing.INERTIA_ROW * index
            self._floats[row : row + packing.INERTIA_ROW] = sum(
                on_link, link_parameters(self.tree.frames[index])
            )
        for joint in joints:
            self._packed_inertias[joint] = sum(
                (inertia.dynamic_parameters() for inertia in self._payload_inertias(joint)),
                self.tree.joints[joint].inertia.dynamic_parameters(),
            )
        self.total_mass = float(
            sum(joint.inertia.mass for joint in self.tree.joints)
            + sum(payload.inertia.mass for payload in self._payloads.values() if payload.joint >= 0)
        )
