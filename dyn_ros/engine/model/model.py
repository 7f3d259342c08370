# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Model: the tree of joints of a robot, with constants packed for the kernels."""
from __future__ import annotations

import copy
from collections.abc import Mapping
from os import PathLike
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..kernel import layout
from ..kernel.lie import UNIT_TOLERANCE
from ..kernel.types import Array, ArrayLike, Scalar
from ..spatial.inertia import Inertia
from ..spatial.se3 import SE3
from ..spatial.value import frozen
from . import assembly, configuration, parts, payload
from .frames import ReferenceFrame
from .inputs import finite_array
from .parameters import is_physical
from .structure import Structure
from .urdf import read_description, read_urdf
from .wrenches import external_forces

RootJoint: TypeAlias = Literal["floating", "planar"] | None
MimicJoints: TypeAlias = Literal["project", "ignore"]
ConnectingJoint: TypeAlias = Literal["fixed", "revolute", "continuous", "prismatic", "spherical",
                                     "planar", "floating"] | None


class Model(Structure):
    """A robot: its joints, frames and inertias. Created with ``from_urdf`` or ``from_urdf_file``.

    ``append`` attaches another robot to it, and ``with_frame`` adds a frame.

    Joints and frames exclude the universe and are in the order of Pinocchio: depth first,
    children by joint name. Fixed joints are lumped into the joint that moves them; their
    frames are kept.

    Attributes
    ----------
    name : str
        Name of the robot.
    njoints, nq, nv : int
        Number of moving joints, of numbers in q, and of numbers in v.
    joint_names : tuple of str, length njoints
        Includes mimic joints.
    velocity_names : tuple of str, length nv
        The joint's name for a joint with one coordinate; with a suffix such as ``/linear_x`` for
        planar, spherical and floating joints.
    position_names : tuple of str, length nq
        The same for the numbers in q, with suffixes such as ``/x``.
    nframes : int
        Number of frames.
    frame_names : tuple of str
        Joints, fixed joints and links; then the frames that were added.
    idx_q, idx_v, nqs, nvs : tuple of int, length njoints
        Index of the first number of each joint in q and v, and count of its numbers. A mimic
        joint has no numbers of its own and refers to those of its master.
    parents : tuple of int, length njoints
        Index of the parent of each joint, -1 for the universe. A parent precedes its children.
    row_parents : tuple of int, length nv
        For each velocity, the one before it on the way to the root, or -1. M[i, j] is zero unless
        i is on the way from j to the root, or j on the way from i. If mimic joints couple
        branches, all velocities are in one line.
    lower, upper : (nq,) ndarray
        Position limits [rad, m]; infinite if unlimited.
    velocity_limit, effort_limit : (nv,) ndarray
        [rad/s, m/s] and [N m, N]; infinite if unlimited.
    total_mass : float
        Mass of all moving links [kg], including payloads; excludes a fixed base link.
    warnings : tuple of str
        Warnings about the robot description.
    tree : Tree
        The description that the model was created from, with the inertias that were assigned
        since, and without payloads.

    Examples
    --------
    >>> model.njoints, model.nq, model.nv, round(model.total_mass, 2)
    (7, 7, 7, 15.6)
    >>> model.joint_names[:3]
    ('shoulder_yaw', 'shoulder_pitch', 'upper_arm_roll')

    A payload changes all that is computed, until it is removed:

    >>> before = dyn_ros.generalized_gravity(model, data, q).copy()
    >>> model.set_payload("cup", "tool", 0.4, [0.0, 0.0, 0.05], 0.001 * np.eye(3))
    >>> after = dyn_ros.generalized_gravity(model, data, q).copy()
    >>> model.clear_payload("cup")
    >>> print((after - before).round(2) + 0.0)
    [ 0.   -0.82 -0.11 -1.46 -0.16 -0.78  0.  ]
    """

    @classmethod
    def from_urdf(cls, xml: str | bytes, root_joint: RootJoint = None,
                  gravity: ArrayLike = (0.0, 0.0, -9.81), mimic: MimicJoints = "project",
                  strict: bool = False) -> Model:
        """Read a robot from the text of a URDF.

        Parameters
        ----------
        xml : str
            The URDF.
        root_joint : None, "floating" or "planar"
            How the root link moves in the world; None: it is fixed.
        gravity : (3,) array_like
            [m/s2], expressed in the root frame.
        mimic : "project" or "ignore"
            Mimic joints follow their master, or are independent joints.
        strict : bool
            Raise an error instead of adding a warning.

        Returns
        -------
        Model

        Raises
        ------
        UrdfError
            The URDF cannot be used; a ValueError that names the element.
        """
        return cls(read_urdf(xml, root_joint, mimic, strict), gravity)

    @classmethod
    def from_urdf_file(cls, path: str | PathLike[str], root_joint: RootJoint = None,
                       gravity: ArrayLike = (0.0, 0.0, -9.81), mimic: MimicJoints = "project",
                       strict: bool = False) -> Model:
        """Read a robot from a URDF file or a pipe.

        The other parameters are those of ``from_urdf``.
        """
        return cls.from_urdf(read_description(path), root_joint, gravity, mimic, strict)

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

    def reduced(self, lock: Mapping[str, float | ArrayLike]) -> Model:
        """The robot with some of its joints locked, as a model of its own.

        Bodies that can no longer move relative to each other are merged, with their payloads. All
        frames remain, with the same indices; those of locked joints become fixed joints. The other
        joints keep their order, limits, armature, damping and friction. Corresponds to
        Pinocchio's buildReducedModel.

        Parameters
        ----------
        lock : dict of str to float or array_like
            By joint name, its position [rad, m]: a number, (x, y, theta) of a planar joint,
            (qx, qy, qz, qw) of a spherical joint, or (x, y, z, qx, qy, qz, qw) of a floating
            joint, such as "root_joint". It may be outside the limits. Joints that mimic a locked
            joint are locked at the position that follows.

        Returns
        -------
        Model
            It shares nothing with this model.

        Raises
        ------
        ValueError
            An unknown joint (lists the valid ones), a mimic joint (names its master), or a
            position of the wrong shape, that is not finite, or whose quaternion is not unit.
        TypeError
            ``lock`` is not a dict.
        """
        return self._part(*parts.reduced(self, lock))

    def chain(self, root: str | int, tip: str | int) -> Model:
        """The serial chain from one link to another, as KDL's ``getChain``.

        The root link is fixed: its frame is the world of the chain, in which ``gravity``, whose
        numbers do not change, is expressed. The chain consists of the joints and links between
        both, with their frames and payloads. The rest of the robot has no mass in it: to keep
        that, lock the other joints with ``reduced``.

        If the tip is not below the root, the joints up to their common ancestor are reversed:
        they move the links above them, at the same positions.

        Parameters
        ----------
        root, tip : str or int
            Name or index of the frame of a link. A joint selects the link that it connects.

        Returns
        -------
        Model
            Its joints are in the order of the chain, with the same limits, armature, damping and
            friction. A joint that mimics one outside the chain is independent. It shares nothing
            with this model.

        Raises
        ------
        ValueError
            An unknown frame (lists the valid ones), or a joint with several coordinates that would
            have to be reversed.
        """
        return self._part(*parts.chain(self, root, tip))

    def append(self, other: Model, frame: str | int, placement: SE3 | ArrayLike | None = None,
               joint: ConnectingJoint = None, *, name: str | None = None, prefix: str = "",
               axis: ArrayLike | None = None, lower: float | None = None,
               upper: float | None = None, velocity_limit: float | None = None,
               effort_limit: float | None = None) -> Model:
        """Attach another robot to a frame of this one, such as a gripper to an arm.

        The result has the joints, links, frames and payloads of both, with their limits, armature,
        damping and friction; mimic joints follow the same masters. Its name and gravity are those
        of this robot. Joints are in the usual order, depth first, children by joint name, so the
        numbers in q and v of both robots may be at other indices: ``idx_q`` and ``velocity_names``
        contain them. Corresponds to Pinocchio's appendModel.

        Parameters
        ----------
        other : Model
            The robot to attach.
        frame : str or int
            Name or index of the frame of this robot to whose link the other one is attached.
        placement : SE3 or (4, 4) array_like, optional
            Of the joint in the frame [m]; at position zero, also of the root link of the other
            robot. Identity by default.
        joint : str, optional
            How the root link moves: "fixed", "revolute", "continuous", "prismatic", "spherical",
            "planar" or "floating". By default it is fixed or, if the other robot has a root joint,
            moves by this one.
        name : str, optional
            Of the joint. By default that of the root link with the suffix "_joint", or that of the
            root joint, after the prefix.
        prefix : str
            Put before all names of the other robot: joints, links, frames and payloads.
        axis : (3,) array_like, optional
            Of a revolute, continuous or prismatic joint, which require it; expressed in the joint
            frame, of any length.
        lower, upper : float, optional
            Position limits of a revolute or prismatic joint [rad, m]. Unlimited by default.
        velocity_limit, effort_limit : float, optional
            Limits of a revolute, continuous or prismatic joint [rad/s, m/s; N m, N]. Unlimited by
            default.

        Returns
        -------
        Model
            It shares nothing with the two robots.

        Raises
        ------
        ValueError
            An unknown frame or joint (lists the valid ones), a name that both robots have, or an
            argument that is invalid or does not apply to the joint.
        TypeError
            ``other`` is not a Model.
        """
        connection = assembly.Connection(joint, name, prefix, axis, lower, upper, velocity_limit,
                                         effort_limit)
        part, names = assembly.appended(self, other, frame, placement, connection)
        model = self._part(*part)
        parts.copy_coordinates(other, model, names)
        return model

    def with_frame(self, name: str, parent_frame: str | int,
                   placement: SE3 | ArrayLike | None = None) -> Model:
        """Add a frame, such as the tip of a tool or the sole of a foot.

        It is fixed to the link of its parent frame. All functions accept it like the frame of a
        link.

        Parameters
        ----------
        name : str
            Of the new frame.
        parent_frame : str or int
            Name or index of the frame in which it is placed.
        placement : SE3 or (4, 4) array_like, optional
            In the parent frame [m]. Identity by default.

        Returns
        -------
        Model
            The new frame is the last one; other frames have the same indices. It shares nothing
            with this model.

        Raises
        ------
        ValueError
            An unknown parent frame (lists the valid ones), a name that another frame has, or an
            invalid placement.
        """
        tree = assembly.with_frame(self, name, parent_frame, placement)
        return self._part(tree, self._payloads)

    def _part(self, tree, payloads):
        part = Model(tree, self.gravity)
        parts.copy_coordinates(self, part)
        payload.attach(part, payloads)
        return part

    def neutral(self) -> Array:
        """The configuration of zeros and identity rotations.

        Returns
        -------
        (nq,) ndarray
        """
        return configuration.neutral(self)

    def integrate(self, q: ArrayLike, v: ArrayLike) -> Array:
        """Integrate a velocity from a configuration for one unit of time, on the manifold.

        Parameters
        ----------
        q : (nq,) or (B, nq) array_like
        v : (nv,) or (B, nv) array_like
            Velocity times duration; for floating, planar and spherical joints expressed in their
            frame.

        Returns
        -------
        (nq,) or (B, nq) ndarray
            The quaternions are normalized.

        Raises
        ------
        ValueError
            An invalid argument; names it, the expected and the actual value.
        """
        return configuration.integrate(self, q, v)

    def difference(self, q0: ArrayLike, q1: ArrayLike) -> Array:
        """The velocity with which ``integrate`` moves from q0 to q1.

        Parameters
        ----------
        q0, q1 : (nq,) or (B, nq) array_like

        Returns
        -------
        (nv,) or (B, nv) ndarray
            Rotations of floating, planar and spherical joints are at most pi; the angles of
            continuous joints are subtracted without wrapping.

        Raises
        ------
        ValueError
            An invalid argument; names it, the expected and the actual value.
        """
        return configuration.difference(self, q0, q1)

    def d_integrate(self, q: ArrayLike, v: ArrayLike) -> tuple[Array, Array]:
        """Derivatives of ``integrate(q, v)`` with respect to q and v.

        Changes of q and of the result are velocities, in the sense of ``integrate``: to first
        order, ``integrate(integrate(q, x), v + y)`` is
        ``integrate(integrate(q, v), dq @ x + dv @ y)``.

        Parameters
        ----------
        q : (nq,) or (B, nq) array_like
        v : (nv,) or (B, nv) array_like
            As for ``integrate``.

        Returns
        -------
        dq, dv : (nv, nv) or (B, nv, nv) ndarray
            Identity matrices except for floating, planar and spherical joints.

        Raises
        ------
        ValueError
            An invalid argument; names it, the expected and the actual value.
        """
        return configuration.d_integrate(self, q, v)

    def d_difference(self, q0: ArrayLike, q1: ArrayLike) -> tuple[Array, Array]:
        """Derivatives of ``difference(q0, q1)`` with respect to q0 and q1.

        Changes of q0 and q1 are velocities, in the sense of ``integrate``: to first order,
        ``difference(integrate(q0, x), integrate(q1, y))`` is
        ``difference(q0, q1) + d0 @ x + d1 @ y``.

        Parameters
        ----------
        q0, q1 : (nq,) or (B, nq) array_like

        Returns
        -------
        d0, d1 : (nv, nv) or (B, nv, nv) ndarray
            Minus the identity and the identity, except for floating, planar and spherical joints.
            Rotations by pi, where the difference is not continuous, have the derivatives of the
            branch that ``difference`` returns.

        Raises
        ------
        ValueError
            An invalid argument; names it, the expected and the actual value.
        """
        return configuration.d_difference(self, q0, q1)

    def distance(self, q0: ArrayLike, q1: ArrayLike) -> Scalar:
        """The length of ``difference(q0, q1)``.

        Parameters
        ----------
        q0, q1 : (nq,) or (B, nq) array_like

        Returns
        -------
        float or (B,) ndarray
            Square root of the sum of squares; adds angles [rad] and lengths [m].

        Raises
        ------
        ValueError
            An invalid argument; names it, the expected and the actual value.
        """
        return configuration.distance(self, q0, q1)

    def normalize(self, q: ArrayLike) -> Array:
        """Divide all quaternions of a configuration by their lengths.

        Parameters
        ----------
        q : (nq,) or (B, nq) array_like
            Quaternions of any length except zero.

        Returns
        -------
        (nq,) or (B, nq) ndarray
            A copy; the other numbers do not change.

        Raises
        ------
        ValueError
            An invalid argument, or a quaternion of zeros; names it, the expected and the actual
            value.
        """
        return configuration.normalize(self, q)

    def is_normalized(self, q: ArrayLike, tolerance: float = UNIT_TOLERANCE) -> Scalar:
        """Whether all quaternions of a configuration are unit.

        Parameters
        ----------
        q : (nq,) or (B, nq) array_like
        tolerance : float
            The squared lengths differ from 1 by less. The default, 1e-6, is what all functions
            accept.

        Returns
        -------
        bool or (B,) ndarray of bool

        Raises
        ------
        ValueError
            An invalid argument; names it, the expected and the actual value.
        """
        return configuration.is_normalized(self, q, tolerance)

    def interpolate(self, q0: ArrayLike, q1: ArrayLike, u: float | ArrayLike) -> Array:
        """Interpolate from q0 to q1 by the fraction u.

        Parameters
        ----------
        q0, q1 : (nq,) or (B, nq) array_like
        u : float or (B,) array_like
            0: q0, 1: q1.

        Returns
        -------
        (nq,) or (B, nq) ndarray

        Raises
        ------
        ValueError
            An invalid argument; names it, the expected and the actual value.
        """
        return configuration.interpolate(self, q0, q1, u)

    def random_configuration(self, rng: np.random.Generator | None = None) -> Array:
        """A random configuration inside the position limits.

        For revolute joints without limits, the angle is in [-pi, pi); for prismatic ones, the
        position is in [-1, 1) m. Limits beyond 1e4 rad or m count as none. Rotations are uniformly
        distributed.

        Parameters
        ----------
        rng : numpy.random.Generator, optional

        Returns
        -------
        (nq,) ndarray
        """
        return configuration.random_configuration(self, rng or np.random.default_rng())

    def external_forces(self, wrenches: Mapping[str, ArrayLike], q: ArrayLike | None = None,
                        axes: str | ReferenceFrame | None = None) -> Array:
        """Convert external wrenches on frames to wrenches on the joints that move them.

        Parameters
        ----------
        wrenches : dict of str to (6,) array_like
            By frame name, the wrench (force, moment) on the link of the frame, at its origin
            [N, N m]. Wrenches on the fixed base have no effect and are ignored. For a batch,
            each can be (B, 6).
        q : (nq,) or (B, nq) array_like, optional
            Configuration [rad, m]. Required unless the axes move with the frames.
        axes : str or ReferenceFrame, optional
            The axes in which all wrenches are expressed: those of a frame, by name, or of the
            world, "world", which is the same as LOCAL_WORLD_ALIGNED. If a frame has the name
            "world", it selects this frame. With WORLD, wrenches are expressed in the world, and
            act at its origin. Default: LOCAL, each wrench is expressed in the frame that it acts
            on.

        Returns
        -------
        (njoints, 6) or (B, njoints, 6) ndarray
            ``f_ext`` of ``rnea``, ``static_torque`` and ``aba``, for this configuration.

        Raises
        ------
        ValueError
            An unknown frame (lists the valid ones), not six finite numbers, or an invalid q.
        """
        return external_forces(self, wrenches, q, axes)

    def __copy__(self) -> Model:
        """Return an independent model: changes to one do not affect the other."""
        return copy.deepcopy(self)

    def __repr__(self) -> str:
        return f"Model({self.name!r}, njoints={self.njoints}, nq={self.nq}, nv={self.nv})"
