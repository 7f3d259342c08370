# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What can be set: gravity, inertias and payloads, armature, damping and friction."""
from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..kernel import layout
from ..kernel.types import Array, ArrayLike
from ..spatial.inertia import Inertia
from ..spatial.value import frozen
from . import payload
from .inputs import finite_array
from .parameters import is_physical
from .structure import Structure


class Inertias(Structure):
    """The constants of a robot that can be set."""

    @property
    def gravity(self) -> Array:
        """Gravity, (3,) [m/s2], expressed in the root frame; settable."""
        return self._floats[:3]

    @gravity.setter
    def gravity(self, value: ArrayLike) -> None:
        self._floats[:3] = finite_array("gravity", value, (3,))

    @property
    def armature(self) -> Array:
        """Rotor inertia reflected to each coordinate, (nv,) [kg m2, kg]; settable."""
        start = layout.ROWS + layout.FLOATS_ROW * (self.njoints + 1)
        return self._floats[start:start + self.nv]

    @armature.setter
    def armature(self, value: ArrayLike) -> None:
        self.armature[:] = finite_array("armature", value, (self.nv,))

    @property
    def damping(self) -> Array:
        """Viscous friction of each coordinate, (nv,) [N m s/rad, N s/m]; settable.

        From <dynamics> of the URDF, 0 if it is not specified there; includes that of mimic joints,
        reflected to their master. Only ``joint_friction`` uses it.
        """
        return self._damping

    @damping.setter
    def damping(self, value: ArrayLike) -> None:
        self._damping[:] = self._not_negative("damping", value)

    @property
    def friction(self) -> Array:
        """Coulomb friction of each coordinate, (nv,) [N m, N]; settable.

        From <dynamics> of the URDF, 0 if it is not specified there; includes that of mimic joints,
        reflected to their master. Only ``joint_friction`` uses it.
        """
        return self._friction

    @friction.setter
    def friction(self, value: ArrayLike) -> None:
        self._friction[:] = self._not_negative("friction", value)

    def _not_negative(self, name, value):
        """Validate a number for each coordinate, of 0 or more."""
        array = finite_array(name, value, (self.nv,))
        if (array < 0.0).any():
            k = int(np.argmax(array < 0.0))
            raise ValueError(f"{name}: expected numbers of 0 or more, got {array[k]:g} in "
                             f"{name}[{k}] ({self.velocity_names[k]!r})")
        return array

    @property
    def base_inertia(self) -> Inertia:
        """Inertia of the fixed base link and its payloads, expressed in the root frame.

        It is excluded from all totals.
        """
        return payload.body_inertia(self, -1)

    @property
    def inertial_parameters(self) -> Array:
        """Parameters of each joint's body and its payloads, (njoints, 10); settable.

        m [kg], m cx, m cy, m cz [kg m], Ixx, Ixy, Iyy, Ixz, Iyz, Izz about the joint's origin
        [kg m2], in the joint's frame and Pinocchio's order, as in ``Inertia.dynamic_parameters``.
        All algorithms use these numbers; the dynamics is linear in them.

        What is read is a read-only copy. What is assigned includes the payloads that are attached;
        these remain, and can be replaced or removed. The difference to the other links that are
        fixed to a joint becomes the inertia of the first of them that has mass. Any finite
        numbers are accepted, since an estimate need not be physical: see ``is_physical``.
        """
        return frozen(payload.parameters(self), (self.njoints, layout.INERTIA_ROW))

    @inertial_parameters.setter
    def inertial_parameters(self, value: ArrayLike) -> None:
        payload.assign_parameters(self, value)

    @property
    def is_physical(self) -> NDArray[np.bool_]:
        """Whether each joint's body, with its payloads, can exist, (njoints,) ndarray of bool.

        The pseudo-inertia is positive definite; see ``dyn_ros.is_physical``, also for bodies on
        the boundary, such as flat plates and links without mass, which are False here.
        """
        return np.asarray(is_physical(payload.parameters(self)))

    @property
    def inertias(self) -> tuple[Inertia, ...]:
        """Inertia of each joint's body and its payloads, in the joint's frame; a tuple.

        Raises a ValueError if a first moment without mass was assigned, which no ``Inertia`` has.
        """
        return tuple(payload.body_inertia(self, joint) for joint in range(self.njoints))

    @property
    def payloads(self) -> tuple[str, ...]:
        """Names of the payloads, a tuple."""
        return tuple(self._payloads)

    def set_payload(self, name: str, frame: str | int, mass: float, com: ArrayLike,
                    inertia: ArrayLike) -> None:
        """Attach a body to the link of a frame. All algorithms include it.

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
        inertia : (3, 3) array_like
            Rotational inertia about the center of mass, expressed in the frame [kg m2]:
            symmetric, positive definite, no principal moment above the sum of the others.

        Raises
        ------
        ValueError
            An unknown frame (lists the valid ones), or an inertia that is not physical; the
            payloads do not change.
        """
        payload.set_payload(self, name, frame, mass, com, inertia)

    def clear_payload(self, name: str | None = None) -> None:
        """Remove a payload; the original inertias are restored exactly.

        Parameters
        ----------
        name : str, optional
            None: all payloads.

        Raises
        ------
        ValueError
            No payload has this name (lists the valid ones).
        """
        payload.clear_payload(self, name)
