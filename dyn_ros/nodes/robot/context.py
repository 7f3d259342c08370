# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot of a node: what is derived from one robot description, and from its states."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import numpy as np

import dyn_ros
from dyn_ros import Data, Model
from dyn_ros.drives.efforts import effort_conflicts
from dyn_ros.drives.file import missing_gains
from dyn_ros.engine.algorithms.dynamics.friction import add_compensated_gravity
from dyn_ros.engine.kernel.names import join_names, short_repr, unknown_name
from dyn_ros.engine.kernel.types import Array
from dyn_ros.engine.model.composite_bodies import Body
from dyn_ros.engine.model.coordinates import independent_joint_indices

from ...cdr.decode import JOINT_STATE
from ...states.joint_states import (
    Rejected,
    State,
    abbreviate_names,
    base_kind,
    joint_rows,
)
from ...states.jumps import PositionJumps
from ...states.messages import MessageCollector
from ...viewer.scene.inertia_markers import BodyCheck

Result = TypeVar("Result")
Method = TypeVar("Method", bound=Callable[..., Any])


class SettingError(ValueError):
    """A parameter, or a field of a request, that does not fit the robot."""

    def __init__(self, parameter: str, text: object) -> None:
        super().__init__(f"{parameter}: {text}")
        self.parameter = parameter


@contextmanager
def parameter_errors(parameter: str) -> Iterator[None]:
    """Convert a ValueError or OSError in the context to a `SettingError` of a parameter."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise SettingError(parameter, error) from None


class UnknownPosition(SettingError):
    """The current position of a joint to be locked is not yet known."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(
            "locked_joints",
            "unknown position of "
            + abbreviate_names(names)
            + "; publish it on joint_states, or specify name=position",
        )
        self.names = names


class DynamicsTerms:
    """The declared results of `dyn_ros.all_terms` for a state, as attributes: arrays of `Data`.

    If `State.v` is None, terms that depend on the velocity are computed for a robot at rest.
    Reading a term that is not declared raises an AttributeError, which lists the declared ones.
    """

    def __init__(self, data: Data, names: Iterable[str]) -> None:
        self._data, self._names = data, frozenset(names)

    def __getattr__(self, name: str) -> Any:
        if name in self._names:
            value = getattr(self._data, name)
            setattr(self, name, value)  # the array stays the same: bypass __getattr__ from now on
            return value
        raise AttributeError(
            f"the term {name!r} is not declared; add it to the `reads` of the output, which "
            f"declares {join_names(sorted(self._names))}"
        )


def once_per_state(method: Method) -> Method:
    """Cache the result of a method with the arguments (robot, state, ...) for the latest state."""

    @functools.wraps(method)
    def cached(self: Any, robot: RobotContext, state: State, *arguments: Any) -> Any:
        return robot.compute_once(
            state, method.__name__, lambda: method(self, robot, state, *arguments)
        )

    return cast(Method, cached)


class RobotContext:
    """Everything derived from one robot description; each description has its own context.

    `values` are the node's parameters, `base.node_parameters.SPECS`; `notify(text)` is called when
    the collected state is discarded, and `jumps` has the jumps of positions. `payloads` has the
    arguments of `Model.set_payload` by name, and is passed from context to context;
    `rejected_payloads` has an error message for each that is not applied. `positions` are the
    latest positions of joints by name. `locked_positions` are the positions of joints that are
    locked at their latest position. `message_type` is the type of joint states, as for
    `MessageCollector`. A parameter that does not fit raises a `SettingError`.

    Outputs have the frame_id `frame_id`, or `world_frame` if they are expressed in the world;
    `odometry_frame` is the frame_id of the latest odometry. `vector[rows]` selects the entries of
    v to publish, in the order of `names`; `position_rows` and `position_names` do so for q, and
    `matrix[block]` for matrices (nv, nv). `received` is the time of the latest complete state, by
    time.perf_counter [s]; `payload_changes` counts set and cleared payloads.
    """

    def __init__(
        self,
        description: str,
        values: Mapping[str, Any],
        notify: Callable[[str], None] | None = None,
        payloads: dict[str, tuple] | None = None,
        positions: Mapping[str, float] | None = None,
        message_type: str = JOINT_STATE,
        jumps: PositionJumps | None = None,
    ) -> None:
        root_joint = values["root_joint"]
        self.description = description
        self.model = Model.from_urdf(
            description,
            root_joint=None if root_joint == "fixed" else root_joint,
            gravity=values["gravity"],
            mimic=values["mimic"],
            strict=values["strict"],
        )
        base_kind(self.model)  # raises an error for a moving base within the description
        self.missing_gains: dict[str, str] = {}
        if path := values.get("drives"):  # joints are locked below: the file may name them
            with parameter_errors("drives"):
                dyn_ros.load_drives(self.model, path)
                self.missing_gains = missing_gains(path, self.model.velocity_names)
        self.locked_positions: dict[str, float] = {}
        self._lock_joints(values["locked_joints"], positions or {})
        self.includes_friction: bool = values["include_friction"]
        self._select_joints(values["joints"])
        self._set_armature(values["armature"])
        if path := values.get("native_library"):
            with parameter_errors("native_library"):
                dyn_ros.load_native(path, self.model)
        self.data = Data(self.model)
        self.body_check = BodyCheck(description, self.model)
        base: tuple[Any, Any] | None = None
        if values["base_source"] == "parameter":
            base = (values["base_pose"], values["base_twist"])
        with parameter_errors("base_pose, base_twist"):
            self.collector = MessageCollector(
                self.model, values["staleness"], base, notify, message_type, jumps
            )
        self.root_link = self.model.tree.root_link
        self.frame_id = values["frame_id"] or self.root_link
        self.has_moving_base = root_joint != "fixed"
        self.odometry_frame = ""
        self._world_frame = values["world_frame"]
        self.received = -math.inf
        self._checked_interface_count = 0
        self._effort_conflicts: Mapping[str, str] = {}
        self._cached_state: State | None = None
        self._cache: dict[str, Any] = {}  # results for `_cached_state`
        self._base: Body | None = None  # None after a change of payloads
        self.payloads = {} if payloads is None else payloads
        self.payload_changes = 0
        self.rejected_payloads: list[str] = []
        for name, body in self.payloads.items():
            try:
                self.model.set_payload(name, *body)
            except ValueError as error:
                self.rejected_payloads.append(f"payload {name!r} is not applied: {error}")

    def latest_state(self, received: float, reads: Iterable[str]) -> State:
        """Return the complete state received at a time [s], with the fields that `reads` names."""
        self.received = received
        self.collector.collect_quantities(reads)
        return self.collector.latest_state()

    def compute_terms(self, state: State, names: Sequence[str]) -> None:
        """Compute these results of `dyn_ros.all_terms` in `data`, in one pass over the kinematics.

        If a velocity is unknown, terms that depend on it are computed for a robot at rest.
        """
        if names:
            dyn_ros.all_terms(self.model, self.data, state.q, state.v, only=names)

    def joint_torque(self, state: State) -> Array | None:
        """Return the joint torques, (nv,), that the efforts of a state mean; None if unknown.

        They are converted as the parameter drives declares. Raises `Rejected` if a gain is missing,
        or if efforts have another unit.
        """
        if state.effort is None:
            return None
        for problem in (*self.effort_conflicts().values(), *self.missing_gains.values()):
            raise Rejected(problem)
        torque = self.model.drives.to_torque(state.effort)
        return add_compensated_gravity(self.model, self.data, state.q, torque)

    def effort_conflicts(self) -> Mapping[str, str]:
        """Return a message for each joint whose efforts have another unit than drives declare."""
        interfaces = self.collector.effort_interfaces
        if len(interfaces) != self._checked_interface_count:
            self._checked_interface_count = len(interfaces)
            self._effort_conflicts = effort_conflicts(self.model, interfaces)
        return self._effort_conflicts

    def compute_once(self, state: State, name: str, compute: Callable[[], Result]) -> Result:
        """Return `compute()`, called once for each state; `name` is the key of its result."""
        if self._cached_state is not state:
            self._cached_state, self._cache = state, {}
        if name not in self._cache:
            self._cache[name] = compute()
        return self._cache[name]

    def set_payload(self, name: str, *body: Any) -> None:
        """Call `Model.set_payload`, also for later descriptions."""
        self.model.set_payload(name, *body)
        self.payloads[name] = body
        self._payloads_changed()

    def clear_payload(self, name: str | None = None) -> None:
        """Call `Model.clear_payload`; also remove a payload that was not applied."""
        if name is not None and name not in self.payloads:
            raise Rejected(unknown_name("payload", name, self.payloads, 20))
        for payload in list(self.payloads) if name is None else [name]:
            del self.payloads[payload]
            if payload in self.model.payloads:
                self.model.clear_payload(payload)
        self._payloads_changed()

    def _payloads_changed(self) -> None:
        """Count the change and discard the body of the base."""
        self.payload_changes += 1
        self._base = None

    @property
    def base(self) -> Body:
        """The body of the fixed base link and its payloads, in the root frame."""
        if self._base is None:
            self._base = Body.of(self.model.base_inertia)
        return self._base

    @property
    def world_frame(self) -> str:
        """The frame_id of the world."""
        if not self.has_moving_base:
            return self.frame_id
        return self._world_frame or self.odometry_frame or "world"

    def friction(self, v: Array, torque: Array) -> Array:
        """Return the friction to add to a torque, (nv,) or (B, nv); zero if it is not included."""
        if not self.includes_friction:
            return np.zeros_like(v)
        return dyn_ros.joint_friction(self.model, v, torque)

    def _lock_joints(self, entries: Sequence[str], positions: Mapping[str, float]) -> None:
        """Lock joints, each at the position in name=position, or name: at its latest position."""
        lock: dict[str, float] = {}
        for entry in entries:
            name, specified, number = (part.strip() for part in entry.partition("="))
            if name not in self.model.joint_names:
                raise SettingError(
                    "locked_joints",
                    f"there is no joint {name!r:.80}; "
                    f"available: {join_names(self.model.joint_names)}",
                )
            if name in lock:
                raise SettingError("locked_joints", f"duplicate name {name!r:.80}")
            joint = self.model.tree.joints[self.model.joint_index(name)]
            if joint.mimic is not None:
                master = self.model.joint_names[joint.mimic.joint]
                raise SettingError("locked_joints", f"{name} follows {master}; lock {master}")
            if joint.kind in ("floating", "planar"):
                raise SettingError(
                    "locked_joints",
                    f"{name} is {joint.kind} and has several "
                    "coordinates; set root_joint to fixed instead",
                )
            lock[name] = math.nan
            if specified:
                lock[name] = _parse_position(name, number)
            elif name in positions:
                lock[name] = self.locked_positions[name] = positions[name]
        unknown = [name for name, position in lock.items() if math.isnan(position)]
        if unknown:
            raise UnknownPosition(unknown)
        if lock:
            with parameter_errors("locked_joints"):
                self.model = self.model.reduced(lock)

    def _select_joints(self, joints: Sequence[str]) -> None:
        """Set the names and rows to publish; no joints: all."""
        model = self.model
        available = independent_joint_indices(model)
        for name in joints:
            if name in available:
                continue
            if name in model.joint_names:
                raise SettingError("joints", f"'{name}' is a mimic joint, without its own row")
            raise SettingError(
                "joints", f"there is no joint '{name}'; available: {join_names(available)}"
            )
        if len(set(joints)) != len(joints):
            raise SettingError("joints", "duplicate names in " + join_names(joints))
        position_rows, rows = joint_rows(model, joints or available)
        self.names = [model.velocity_names[row] for row in rows]
        self.position_names = [model.position_names[row] for row in position_rows]
        self.rows: Any = np.array(rows, np.intp)
        self.position_rows: Any = np.array(position_rows, np.intp)
        self.block: Any = np.ix_(rows, rows)
        if rows == list(range(model.nv)):
            self.rows = self.position_rows = self.block = slice(None)

    def _set_armature(self, armature: Sequence[float]) -> None:
        """Set the rotor inertias of the rows to publish."""
        if not armature:
            return
        if len(armature) != len(self.names):
            raise SettingError(
                "armature",
                f"expected {len(self.names)} numbers, one for each of "
                f"{join_names(self.names)}, but got {len(armature)}",
            )
        if min(armature) < 0.0:
            raise SettingError("armature", f"expected numbers >= 0, but got {short_repr(armature)}")
        values = np.zeros(self.model.nv)
        values[self.rows] = armature
        self.model.armature = values


def _parse_position(name: str, text: str) -> float:
    """Return the position [rad, m] in an entry of locked_joints; raise a `SettingError`."""
    try:
        position = float(text.replace("_", "?"))  # float() would accept 1_0
    except ValueError:
        position = math.nan
    if not math.isfinite(position):
        raise SettingError(
            "locked_joints",
            f"the position of {name} is {text!r:.80}; expected a finite number [rad, m]",
        )
    return position
