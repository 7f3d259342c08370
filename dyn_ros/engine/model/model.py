# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Model of a robot: its tree of joints, with constants packed for the kernels."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from ..kernel.types import Array, ArrayLike
from ..spatial.se3 import SE3
from . import assembly, submodels
from .configuration import ConfigurationSpace
from .frames import ReferenceFrame
from .html_table import model_table
from .inertia import Payload
from .mjcf import MjModel, gravity_of, load_model, read_tree
from .mujoco_coordinates import assign_dof_constants
from .physical_constants import PhysicalConstants
from .urdf import Tree, read_description, read_urdf
from .wrenches import external_forces

if TYPE_CHECKING:
    from urdf_parser_py.urdf import Robot

RootJoint: TypeAlias = Literal["floating", "planar"] | None
MimicJoints: TypeAlias = Literal["project", "ignore"]
ConnectingJoint: TypeAlias = (
    Literal["fixed", "revolute", "continuous", "prismatic", "spherical", "planar", "floating"]
    | None
)


class Model(ConfigurationSpace, PhysicalConstants):
    """A robot with its joints, frames and inertias, from a URDF or MJCF.

    ``from_urdf``, ``from_urdf_file`` and ``from_mujoco`` create it.

    ``append`` attaches another robot to it, and ``with_frame`` adds a frame.
    Every method raises a ValueError for an invalid argument, which states the expected and the
    actual value, and lists the valid names for an unknown one; for other types a TypeError.

    Joints and frames exclude the universe and are in the order of Pinocchio: depth first,
    children by joint name, or from MJCF in its order. Fixed joints are lumped into the joint that
    moves them; their frames are kept.

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
        joint has no numbers of its own and refers to its master's.
    parents : tuple of int, length njoints
        Index of the parent of each joint, -1 for the universe. A parent precedes its children.
    row_parents : tuple of int, length nv
        For each velocity, the previous one on the way to the root, or -1. M[i, j] is zero unless
        i is on the way from j to the root, or j on the way from i. If there are mimic
        joints, all velocities are in one line.
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
    urdf_file : Path or None
        The argument of ``from_urdf_file``, in which ``dyn_ros.show`` finds shapes.

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

    urdf_file: Path | None = None

    @classmethod
    def from_urdf(
        cls,
        xml: str | bytes | Robot,
        root_joint: RootJoint = None,
        gravity: ArrayLike = (0.0, 0.0, -9.81),
        mimic: MimicJoints = "project",
        strict: bool = False,
    ) -> Model:
        """Read a robot from URDF text, or from a robot of urdf_parser_py.

        Parameters
        ----------
        xml : str, bytes or urdf_parser_py.urdf.Robot
            The URDF. A Robot is checked like URDF text. It is neither changed nor kept; only the
            elements of links and joints that dynamics requires are read.
        root_joint : None, "floating" or "planar"
            How the root link moves in the world; None: it is fixed.
        gravity : (3,) array_like
            [m/s2], expressed in the world.
        mimic : "project" or "ignore"
            Mimic joints follow their master, or are independent joints.
        strict : bool
            Raise an error instead of adding a warning.

        Raises
        ------
        UrdfError
            The URDF cannot be used; a ValueError that names the element.
        """
        return cls(read_urdf(xml, root_joint, mimic, strict), gravity)

    @classmethod
    def from_urdf_file(
        cls,
        path: str | PathLike[str],
        root_joint: RootJoint = None,
        gravity: ArrayLike = (0.0, 0.0, -9.81),
        mimic: MimicJoints = "project",
        strict: bool = False,
    ) -> Model:
        """Read a robot from a URDF file or a pipe.

        The other parameters are as in ``from_urdf``.
        """
        model = cls.from_urdf(read_description(path), root_joint, gravity, mimic, strict)
        model.urdf_file = Path(path)
        return model

    @classmethod
    def from_mujoco(
        cls,
        mjcf: str | PathLike[str] | MjModel,
        mimic: MimicJoints = "project",
        strict: bool = False,
    ) -> Model:
        """Read a robot from MJCF, or from a model of MuJoCo; requires the package mujoco.

        Joints have MuJoCo's order, names and positions: ``qpos`` differs from q only in the order
        of quaternions, and ``qvel`` from v in the axes of free joints, see ``mujoco_to_state``.
        Links are the bodies; named sites are frames. A body with several joints, or whose joint is
        not at its origin, has massless links between. If the world contains only one free body,
        its joint is the root joint; otherwise the world is the root link.

        Gravity, armature, damping, friction and limits are read, including actuators on a
        joint. What a model has no place for, such as tendons and springs, is ignored with a
        warning. Contacts and the signals of actuators are no part of a robot's dynamics.

        Parameters
        ----------
        mjcf : str, path or mujoco.MjModel
            The text of an MJCF, the path of its file, or a compiled model, which is not changed.
            MuJoCo finds meshes only next to a file.
        mimic : "project" or "ignore"
            A joint in a linear equality with another one follows it exactly, as a mimic joint, or
            is independent.
        strict : bool
            Raise an error instead of adding a warning.

        Raises
        ------
        ImportError
            The package mujoco is not installed: ``pip install "dyn_ros[mujoco]"``.
        UrdfError
            MuJoCo rejects the description; a ValueError with its reason.

        Examples
        --------
        >>> pendulum = dyn_ros.Model.from_mujoco('''
        ... <mujoco>
        ...   <worldbody>
        ...     <body name="arm">
        ...       <joint name="pivot" axis="0 1 0" damping="0.1" armature="0.02"/>
        ...       <geom type="capsule" fromto="0 0 0 0 0 -1" size="0.05"/>
        ...     </body>
        ...   </worldbody>
        ... </mujoco>''')
        >>> pendulum.velocity_names, pendulum.damping, pendulum.armature
        (('pivot',), array([0.1]), array([0.02]))
        """
        source = load_model(mjcf)
        model = cls(read_tree(source, mimic, strict), gravity_of(source))
        assign_dof_constants(model, source)
        return model

    @property
    def urdf_robot(self) -> Robot | None:
        """The URDF that was read, as a ``urdf_parser_py.urdf.Robot``; None if there is none.

        It contains the elements that dynamics requires: links with their inertias, joints with
        their origins, axes, limits, dynamics and mimic rules; for fixed joints, only the origin.
        Visuals, collisions, materials, transmissions and safety controllers are not read.
        ``effort`` and ``velocity`` of a limit without them are None; urdf_parser_py does not write
        such a limit.

        Numbers are those of the URDF, also if the model was changed since, by assigned inertias,
        payloads, locked joints (``reduced``) or frames, or is a ``chain`` of it. Use ``write_urdf``
        to get a URDF with the inertias of the model. A model from ``append`` has no URDF. Each
        access returns a new copy, which can be changed and read with ``from_urdf``.

        Examples
        --------
        >>> robot = model.urdf_robot
        >>> robot.link_map["hand_link"].inertial.mass
        1.2
        >>> robot.link_map["hand_link"].inertial.mass = 1.5
        >>> heavier = dyn_ros.Model.from_urdf(robot)
        >>> round(heavier.total_mass - model.total_mass, 2)
        0.3
        """
        return copy.deepcopy(self.tree.robot)

    def reduced(self, lock: Mapping[str, float | ArrayLike]) -> Model:
        """Return a new model of the robot with some joints locked.

        Bodies that can no longer move relative to each other are merged, with their payloads. All
        frames remain, with the same indices; locked joints become fixed joints. The other
        joints keep their order, limits, armature, damping and friction. Corresponds to
        Pinocchio's buildReducedModel.

        Parameters
        ----------
        lock : dict of str to float or array_like
            Positions [rad, m] by joint name: a number, (x, y, theta) of a planar joint,
            (qx, qy, qz, qw) of a spherical joint, or (x, y, z, qx, qy, qz, qw) of a floating
            joint, such as "root_joint". It may be outside the limits. Joints that mimic a locked
            joint are locked at the position that follows; they cannot be named.

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
        return self._derived_model(*submodels.lock_joints(self, lock))

    def chain(self, root: str | int, tip: str | int) -> Model:
        """Return the serial chain from one link to another, as KDL's ``getChain``.

        The root link is fixed: its frame is the world of the chain, in which ``gravity``, whose
        numbers do not change, is expressed. The chain consists of the joints and links between
        root and tip, with their frames and payloads. It excludes the mass of the remaining robot:
        to keep this mass, lock the other joints with ``reduced``.

        If the tip is not below the root, the joints up to their common ancestor are reversed:
        they move the links above them, at the same positions. Joints with several coordinates
        cannot be reversed.

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
        return self._derived_model(*submodels.extract_chain(self, root, tip))

    def append(
        self,
        other: Model,
        frame: str | int,
        placement: SE3 | ArrayLike | None = None,
        joint: ConnectingJoint = None,
        *,
        name: str | None = None,
        prefix: str = "",
        axis: ArrayLike | None = None,
        lower: float | None = None,
        upper: float | None = None,
        velocity_limit: float | None = None,
        effort_limit: float | None = None,
    ) -> Model:
        """Attach another robot to a frame of this robot, such as a gripper to an arm.

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
            Placement of the joint in the frame [m]; at position zero, also of the root link of the
            other robot. Identity by default.
        joint : str, optional
            How the root link moves: "fixed", "revolute", "continuous", "prismatic", "spherical",
            "planar" or "floating". By default it is fixed or, if the other robot has a root joint,
            moves by this one.
        name : str, optional
            Name of the joint. By default, it is the prefix and the name of the root link with the
            suffix "_joint", or the name of the root joint.
        prefix : str
            Put before all names of the other robot: joints, links, frames and payloads. The names
            that result must differ from this robot's.
        axis : (3,) array_like, optional
            Axis of a revolute, continuous or prismatic joint, which require it; expressed in the
            joint frame, of any length.
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
        connection = assembly.Connection(
            joint, name, prefix, axis, lower, upper, velocity_limit, effort_limit
        )
        robot, names = assembly.append_robot(self, other, frame, placement, connection)
        model = self._derived_model(*robot)
        submodels.copy_coordinates(other, model, names)
        return model

    def with_frame(
        self, name: str, parent_frame: str | int, placement: SE3 | ArrayLike | None = None
    ) -> Model:
        """Add a frame, such as the tip of a tool or the sole of a foot.

        It is fixed to the link of its parent frame. All functions accept it like the frame of a
        link.

        Parameters
        ----------
        name : str
            Name of the new frame; no other one has it.
        parent_frame : str or int
            Name or index of the frame in which it is placed.
        placement : SE3 or (4, 4) array_like, optional
            Placement in the parent frame [m]. Identity by default.

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
        tree = assembly.add_frame(self, name, parent_frame, placement)
        return self._derived_model(tree, self._payloads)

    def _derived_model(self, tree: Tree, payloads: Mapping[str, Payload]) -> Model:
        """Return a model of another tree, with the gravity and the coordinates of this one."""
        model = Model(tree, self.gravity)
        model.urdf_file = self.urdf_file
        submodels.copy_coordinates(self, model)
        model._payloads.update(payloads)
        model._recompute_around(payloads.values())
        return model

    def external_forces(
        self,
        wrenches: Mapping[str, ArrayLike],
        q: ArrayLike | None = None,
        axes: str | ReferenceFrame | None = None,
    ) -> Array:
        """Convert external wrenches on frames to wrenches on the joints that move them.

        Parameters
        ----------
        wrenches : dict of str to (6,) array_like
            Wrench (force, moment) by frame name, on the link of the frame, at its origin
            [N, N m]. Wrenches on the fixed base have no effect and are ignored. For a batch,
            each can be (B, 6).
        q : (nq,) or (B, nq) array_like, optional
            Configuration [rad, m]. Required unless the axes move with the frames.
        axes : str or ReferenceFrame, optional
            The axes in which all wrenches are expressed: the name of a frame, or "world", which
            is the same as LOCAL_WORLD_ALIGNED. If a frame has the name "world", it selects this
            frame. With WORLD, wrenches are expressed in the world, and act at its origin. Default:
            LOCAL, each wrench is expressed in the frame that it acts on.

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

    def _repr_html_(self) -> str:
        """Return a table of the joints, which notebooks show."""
        return model_table(self)
