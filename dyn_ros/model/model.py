# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Model: a robot's tree of joints with its constants packed for the kernels."""
import copy
from collections.abc import Mapping
from os import PathLike
from typing import Literal, TypeAlias

import numpy as np

from ..spatial.inertia import Inertia
from ..spatial.plain import algebra as al
from . import configuration, layout, payload
from .frames import frame_selectors
from .inputs import finite_array
from .types import Array, ArrayLike
from .urdf import Tree, read_description, read_urdf

RootJoint: TypeAlias = Literal["floating", "planar"] | None
MimicJoints: TypeAlias = Literal["project", "ignore"]

_COORDINATES = {  # kind -> names of the numbers in q, and of those in v
    "revolute": (("",), ("",)),
    "continuous": (("",), ("",)),
    "prismatic": (("",), ("",)),
    "planar": (("/x", "/y", "/theta"), ("/linear_x", "/linear_y", "/angular_z")),
    "floating": (("/x", "/y", "/z", "/qx", "/qy", "/qz", "/qw"),
                 ("/linear_x", "/linear_y", "/linear_z",
                  "/angular_x", "/angular_y", "/angular_z")),
}
_KINDS = {"revolute": layout.REVOLUTE, "continuous": layout.REVOLUTE,
          "prismatic": layout.PRISMATIC, "planar": layout.PLANAR, "floating": layout.FLOATING}


def _joint_constants(joint):
    """The row of floats of one joint (layout.PLACE ...)."""
    row = np.zeros(layout.FLOATS_ROW)
    R, u = joint.placement[:3, :3], joint.axis
    place = R
    if _KINDS[joint.kind] == layout.REVOLUTE:
        place = R @ np.outer(u, u)
        row[layout.PLACE_SIN:layout.PLACE_SIN + 9] = (R @ np.reshape(al.skew(u), (3, 3))).ravel()
        row[layout.PLACE_COS:layout.PLACE_COS + 9] = (R - place).ravel()
    row[layout.PLACE:layout.PLACE + 9] = place.ravel()
    row[layout.TRANSLATION:layout.TRANSLATION + 3] = joint.placement[:3, 3]
    row[layout.SLIDE:layout.SLIDE + 3] = R @ u
    row[layout.AXIS:layout.AXIS + 3] = u
    row[layout.INERTIA:layout.INERTIA + 10] = joint.inertia.dynamic_parameters()
    row[layout.RATIO] = joint.mimic.multiplier if joint.mimic else 1.0
    row[layout.SHIFT] = joint.mimic.offset if joint.mimic else 0.0
    return row


class Model:
    """A robot: its joints, frames and inertias. Made by ``from_urdf`` or ``from_urdf_file``.

    Joints and frames leave the universe out and are in Pinocchio's order: depth first, children
    by joint name. Fixed joints are lumped into the joint that carries them; their frames stay.

    Attributes
    ----------
    name : str
        Name of the robot.
    njoints, nq, nv : int
        Number of moving joints, of position numbers, of velocity numbers.
    joint_names : tuple of str, length njoints
        Mimic joints are among them.
    velocity_names : tuple of str, length nv
        The joint's name for a joint with one coordinate; with ``/linear_x`` and so on behind it
        for planar and floating joints.
    position_names : tuple of str, length nq
        The same of the numbers in q, with ``/x`` and so on.
    frame_names : tuple of str
        Joints, fixed joints and links.
    idx_q, idx_v, nqs, nvs : tuple of int, length njoints
        Where each joint's numbers start in q and v, and how many there are. A mimic joint has
        none of its own and points to its master's.
    lower, upper : (nq,) ndarray
        Position limits [rad, m]; infinite where there are none.
    velocity_limit, effort_limit : (nv,) ndarray
        [rad/s, m/s] and [N m, N]; infinite where there are none.
    total_mass : float
        Of what moves [kg], payloads included; the fixed base link does not.
    warnings : tuple of str
        What is odd in the robot's description.
    tree : Tree
        The description that it was made from.
    """

    njoints: int
    nq: int
    nv: int
    joint_names: tuple[str, ...]
    velocity_names: tuple[str, ...]
    position_names: tuple[str, ...]
    frame_names: tuple[str, ...]
    idx_q: tuple[int, ...]
    idx_v: tuple[int, ...]
    nqs: tuple[int, ...]
    nvs: tuple[int, ...]
    lower: Array
    upper: Array
    velocity_limit: Array
    effort_limit: Array
    total_mass: float
    warnings: tuple[str, ...]

    def __init__(self, tree: Tree, gravity: ArrayLike = (0.0, 0.0, -9.81)) -> None:
        if hasattr(self, "_floats"):                # whose memory Data reads
            raise TypeError(f"{self!r} is initialized already; make another Model")
        self.tree = tree
        self.name = tree.name
        self.warnings = tuple(tree.warnings)
        self.njoints = len(tree.joints)
        self.joint_names = tuple(joint.name for joint in tree.joints)
        self.frame_names = tuple(frame.name for frame in tree.frames)
        self._number_coordinates(tree.joints)
        self.total_mass = float(sum(joint.inertia.mass for joint in tree.joints))
        self._payloads: dict[str, payload.Payload] = {}
        self._pack(tree.joints)
        self.gravity = gravity

    @classmethod
    def from_urdf(cls, xml: str | bytes, root_joint: RootJoint = None,
                  gravity: ArrayLike = (0.0, 0.0, -9.81), mimic: MimicJoints = "project",
                  strict: bool = False) -> "Model":
        """Read a robot from the text of a URDF.

        Parameters
        ----------
        xml : str
            The URDF.
        root_joint : None, "floating" or "planar"
            How the root link moves in the world; None: it does not.
        gravity : (3,) array_like
            [m/s2], in the root frame.
        mimic : "project" or "ignore"
            Mimic joints follow their master, or are free joints.
        strict : bool
            Refuse what otherwise gives a warning.

        Returns
        -------
        Model

        Raises
        ------
        UrdfError
            A ValueError that names what is wrong in the URDF.
        """
        return cls(read_urdf(xml, root_joint, mimic, strict), gravity)

    @classmethod
    def from_urdf_file(cls, path: str | PathLike[str], root_joint: RootJoint = None,
                       gravity: ArrayLike = (0.0, 0.0, -9.81), mimic: MimicJoints = "project",
                       strict: bool = False) -> "Model":
        """Read a robot from a URDF file, or from a pipe; all else as in ``from_urdf``."""
        return cls.from_urdf(read_description(path), root_joint, gravity, mimic, strict)

    def _number_coordinates(self, joints):
        idx_q, idx_v, nqs, nvs = [], [], [], []
        self.position_names, self.velocity_names = (), ()
        lower, upper, velocity, effort = [], [], [], []
        for joint in joints:
            if joint.mimic:
                positions, velocities = (), ()
            else:
                positions, velocities = _COORDINATES[joint.kind]
            idx_q.append(len(self.position_names))
            idx_v.append(len(self.velocity_names))
            nqs.append(len(positions))
            nvs.append(len(velocities))
            self.position_names += tuple(joint.name + suffix for suffix in positions)
            self.velocity_names += tuple(joint.name + suffix for suffix in velocities)
            limited = len(velocities) == 1
            lower += [joint.lower if limited else -np.inf] * len(positions)
            upper += [joint.upper if limited else np.inf] * len(positions)
            velocity += [joint.velocity if limited else np.inf] * len(velocities)
            effort += [joint.effort if limited else np.inf] * len(velocities)
        for i, joint in enumerate(joints):
            if joint.mimic:
                idx_q[i], idx_v[i] = idx_q[joint.mimic.joint], idx_v[joint.mimic.joint]
        self.nq, self.nv = len(self.position_names), len(self.velocity_names)
        self.idx_q, self.idx_v, self.nqs, self.nvs = map(tuple, (idx_q, idx_v, nqs, nvs))
        self.lower, self.upper, self.velocity_limit, self.effort_limit = map(
            np.array, (lower, upper, velocity, effort))

    def _pack(self, joints):
        """The tables of integers and floats that kernels read; see layout."""
        table = np.zeros((self.njoints + 1, layout.TREE_ROW), np.int64)
        rows = np.zeros((self.njoints + 1, layout.FLOATS_ROW))
        self._ncolumns = 0
        for i, joint in enumerate(joints):
            columns = len(_COORDINATES[joint.kind][1])
            later = [other.parent for other in joints[i + 1:]]
            table[i + 1] = (joint.parent + 1, _KINDS[joint.kind], self.idx_q[i], self.idx_v[i],
                            columns, self._ncolumns, i in later, joint.parent not in later)
            rows[i + 1] = _joint_constants(joint)
            self._ncolumns += columns
        self._tree_table = table
        self._velocity_tree = self._tree_of_velocities(joints)
        self._unit_quaternions = [self.idx_q[i] + 3 for i, joint in enumerate(joints)
                                  if joint.kind == "floating"]
        numbered = list(enumerate(self.tree.frames))[::-1]      # the first of a name counts
        self._frame_indices = {frame.name: i for i, frame in numbered}
        self._frame_indices.update({frame.name: i for i, frame in numbered
                                    if frame.kind == "body"})
        own = [i for i, frame in enumerate(self.tree.frames) if frame.kind == "joint"]
        self._frame_selectors = frame_selectors({
            **{i: i for i in range(len(self.frame_names))}, **self._frame_indices})
        self._joint_selectors = frame_selectors({
            **dict(enumerate(own)), **dict(zip(self.joint_names, own))})
        self._frame_parents = [frame.parent + 1 for frame in self.tree.frames]
        placements = [[*frame.placement[:3, :3].ravel(), *frame.placement[:3, 3]]
                      for frame in self.tree.frames]
        self._floats = np.concatenate([np.zeros(3), np.eye(6).ravel(), rows.ravel(),
                                       np.zeros(self.nv), np.ravel(placements)])
        self._ints = self._integers(joints)

    def _integers(self, joints):
        """Sizes, the tree and the lists, in one array; see layout."""
        header = np.zeros(layout.TREE, np.int64)
        header[layout.NJOINTS] = self.njoints
        header[layout.NQ], header[layout.NV] = self.nq, self.nv
        header[layout.NALLCOLUMNS] = self._ncolumns
        header[layout.NFRAMES] = len(self._frame_parents)
        header[layout.COUPLED] = self._is_coupled = any(joint.mimic for joint in joints)
        header[layout.NUNIT] = len(self._unit_quaternions)
        tables = [header, self._tree_table.ravel(), self._velocity_tree.ravel()]
        header[layout.UNIT_LIST] = sum(map(len, tables))
        header[layout.FRAME_LIST] = header[layout.UNIT_LIST] + len(self._unit_quaternions)
        lists = [np.array(self._unit_quaternions, np.int64), np.array(self._frame_parents)]
        return np.concatenate([*tables, *lists])

    def _tree_of_velocities(self, joints):
        """For each velocity the one before it on the way to the root, or -1; and the first one
        behind it that does not have it on its way.

        M is sparse along this tree (Featherstone 2008, section 6.4). Mimic joints couple
        branches: then the velocities stand in a single row.
        """
        parents = np.arange(-1, self.nv - 1)
        if not any(joint.mimic for joint in joints):
            last = {-1: -1}
            for i, joint in enumerate(joints):
                parents[self.idx_v[i]] = last[joint.parent]
                last[i] = self.idx_v[i] + self.nvs[i] - 1
        ends = np.arange(1, self.nv + 1)
        for k in range(self.nv - 1, -1, -1):
            if parents[k] >= 0:
                ends[parents[k]] = max(ends[parents[k]], ends[k])
        return np.array([parents, ends])

    @property
    def gravity(self) -> Array:
        """Gravity in the root frame, (3,) [m/s2]; settable."""
        return self._floats[:3]

    @gravity.setter
    def gravity(self, value: ArrayLike) -> None:
        self._floats[:3] = finite_array("gravity", value, (3,))

    @property
    def armature(self) -> Array:
        """Rotor inertia seen by each coordinate, (nv,) [kg m2, kg]; settable."""
        start = layout.ROWS + layout.FLOATS_ROW * (self.njoints + 1)
        return self._floats[start:start + self.nv]

    @armature.setter
    def armature(self, value: ArrayLike) -> None:
        self.armature[:] = finite_array("armature", value, (self.nv,))

    @property
    def base_inertia(self) -> Inertia:
        """Inertia of the fixed base link in the root frame, with the payloads on it.

        It is in no total of the engine.
        """
        return payload.body_inertia(self, -1)

    @property
    def inertias(self) -> tuple[Inertia, ...]:
        """Inertia of each joint's body in the joint's frame, with the payloads on it; a tuple."""
        return tuple(payload.body_inertia(self, joint) for joint in range(self.njoints))

    @property
    def payloads(self) -> tuple[str, ...]:
        """Names of the payloads, a tuple."""
        return tuple(self._payloads)

    def set_payload(self, name: str, frame: str | int, mass: float, com: ArrayLike,
                    inertia: ArrayLike) -> None:
        """Put a body on the link of a frame; every algorithm counts it from now on.

        There may be several; one of the same name is replaced. A payload on the fixed base counts
        in ``base_inertia`` alone.

        Parameters
        ----------
        name : str
            To replace it and to clear it.
        frame : str or int
            Name or index of the frame in which the numbers are told; its link carries the body.
        mass : float
            [kg], positive.
        com : (3,) array_like
            Center of mass in the frame [m].
        inertia : (3, 3) array_like
            Rotational inertia about the center of mass, in the frame's axes [kg m2]: symmetric,
            positive definite, no principal moment above the sum of the others.

        Raises
        ------
        ValueError
            An unknown frame (lists those there are), or numbers that no body has; the payloads
            stay as they were.
        """
        payload.set_payload(self, name, frame, mass, com, inertia)

    def clear_payload(self, name: str | None = None) -> None:
        """Take a payload off; the inertias are then exactly those without it.

        Parameters
        ----------
        name : str, optional
            None: all payloads.

        Raises
        ------
        ValueError
            No payload has this name; lists those there are.
        """
        payload.clear_payload(self, name)

    def neutral(self) -> Array:
        """The configuration of zeros and identity rotations.

        Returns
        -------
        (nq,) ndarray
        """
        return configuration.neutral(self)

    def integrate(self, q: ArrayLike, v: ArrayLike) -> Array:
        """Move a configuration along a velocity for one unit of time, on the joints' manifold.

        Parameters
        ----------
        q : (nq,) or (B, nq) array_like
        v : (nv,) or (B, nv) array_like
            Velocity times duration: for planar and floating joints in their own frame.

        Returns
        -------
        (nq,) or (B, nq) ndarray
            Its quaternions are unit.

        Raises
        ------
        ValueError
            Names the argument, what was expected and what came.
        """
        return configuration.integrate(self, q, v)

    def difference(self, q0: ArrayLike, q1: ArrayLike) -> Array:
        """The velocity that ``integrate`` takes from q0 to q1.

        Parameters
        ----------
        q0, q1 : (nq,) or (B, nq) array_like

        Returns
        -------
        (nv,) or (B, nv) ndarray
            The rotations of planar and floating joints go the short way; continuous joints are
            plain numbers.

        Raises
        ------
        ValueError
            Names the argument, what was expected and what came.
        """
        return configuration.difference(self, q0, q1)

    def interpolate(self, q0: ArrayLike, q1: ArrayLike, u: float | ArrayLike) -> Array:
        """The configuration at the fraction u of the way from q0 to q1.

        Parameters
        ----------
        q0, q1 : (nq,) or (B, nq) array_like
        u : float or (B,) array_like
            0 gives q0, 1 gives q1.

        Returns
        -------
        (nq,) or (B, nq) ndarray

        Raises
        ------
        ValueError
            Names the argument, what was expected and what came.
        """
        return configuration.interpolate(self, q0, q1, u)

    def random_configuration(self, rng: np.random.Generator | None = None) -> Array:
        """A random configuration inside the position limits.

        A turning joint without limits gets an angle in [-pi, pi), a sliding one a position in
        [-1, 1) m; rotations are uniform.

        Parameters
        ----------
        rng : numpy.random.Generator, optional

        Returns
        -------
        (nq,) ndarray
        """
        return configuration.random_configuration(self, rng or np.random.default_rng())

    def external_forces(self, wrenches: Mapping[str, ArrayLike]) -> Array:
        """External wrenches on frames, brought to the joints that carry them.

        Parameters
        ----------
        wrenches : dict of str to (6,) array_like
            For each frame's name the wrench (force, moment) on its link, in that frame's axes, at
            its origin [N, N m]. One on the fixed base moves no joint and is left out.

        Returns
        -------
        (njoints, 6) ndarray
            ``f_ext`` of ``rnea``, ``static_torque`` and ``aba``.

        Raises
        ------
        ValueError
            An unknown frame (lists those there are), or not six finite numbers.
        """
        f_ext = np.zeros((self.njoints, 6))
        for name, wrench in wrenches.items():
            wrench = finite_array(f"wrench on {name}", wrench, (6,))
            frame = self.tree.frames[self.frame_index(name)]
            if frame.parent >= 0:
                R, p = frame.placement[:3, :3], frame.placement[:3, 3]
                force = R @ wrench[:3]
                f_ext[frame.parent, :3] += force
                f_ext[frame.parent, 3:] += R @ wrench[3:] + np.cross(p, force)
        return f_ext

    def joint_index(self, name: str) -> int:
        """Index of a joint in ``joint_names``; ValueError lists them where there is none."""
        return _index("joint", name, self.joint_names)

    def frame_index(self, name: str) -> int:
        """Index of a frame in ``frame_names``; ValueError lists them where there is none.

        Where a joint and a link share the name, it is the link's.
        """
        try:
            return self._frame_indices[name]
        except KeyError:
            return _index("frame", name, self.frame_names)

    def __copy__(self) -> "Model":
        """A model of its own: what is changed in one stays as it is in the other."""
        return copy.deepcopy(self)

    def __repr__(self) -> str:
        return f"Model({self.name!r}, njoints={self.njoints}, nq={self.nq}, nv={self.nv})"


def _index(what, name, names):
    try:
        return names.index(name)
    except ValueError:
        raise ValueError(f"no {what} named {name!r:.80}; there are: {', '.join(names)}") from None
