# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot description prepared for a node: model, data, output rows, state, terms."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import numpy as np

import dyn_ros
from dyn_ros import Data, Model
from dyn_ros.drives.file import missing_gains
from dyn_ros.engine.kernel.names import listed, unknown_name
from dyn_ros.engine.kernel.types import Array
from dyn_ros.engine.model.bodies import Body
from dyn_ros.engine.model.coordinates import independent_joint_indices

from ...states.joint_states import Rejected, State, abbreviated, joint_rows
from ...states.messages import MessageCollector

Result = TypeVar("Result")
Method = TypeVar("Method", bound=Callable[..., Any])


class SettingError(ValueError):
    """A parameter, or a field of a request, that does not fit the robot."""

    def __init__(self, parameter: str, text: object) -> None:
        super().__init__(f"{parameter}: {text}")
        self.parameter = parameter


@contextmanager
def blamed_on(parameter: str) -> Iterator[None]:
    """Turn a ValueError, or that a file cannot be read, into a `SettingError` of this parameter."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise SettingError(parameter, error) from None


class UnknownPosition(SettingError):
    """A joint is to be locked where it stands, which is not known yet."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(
            "locked_joints",
            "unknown position of "
            + abbreviated(names)
            + "; publish it on joint_states, or specify name=position",
        )
        self.names = names


class Terms:
    """The declared results of `dyn_ros.all_terms`, as attributes: arrays of `Data`.

    Those that depend on the velocity are of a robot at rest if `State.v` is None. Reading another
    attribute is an AttributeError, which names it and the declared ones.
    """

    def __init__(self, data: Data, names: Iterable[str]) -> None:
        self._data, self._names = data, frozenset(names)

    def __getattr__(self, name: str) -> Any:
        if name in self._names:
            value = getattr(self._data, name)
            setattr(self, name, value)  # an array that stays: found here from now on
            return value
        raise AttributeError(
            f"the term {name!r} is not declared; add it to the `reads` of the output, which "
            f"declares {listed(sorted(self._names))}"
        )


def once_per_state(method: Method) -> Method:
    """Let a method with the arguments (robot, state, ...) compute only once for each state."""

    @functools.wraps(method)
    def computed(self: Any, robot: RobotContext, state: State, *given: Any) -> Any:
        return robot.once(state, method.__name__, lambda: method(self, robot, state, *given))

    return cast(Method, computed)


class RobotContext:
    """Everything derived from one robot description; each description has its own context.

    `values` are the node's parameters, `base.parameters.SPECS`; `notify(text)` is called when the
    collected state is discarded. `payloads` has the arguments of `Model.set_payload` by name, and
    is passed from context to context; `left_out` has the reason for each that is not applied.
    `positions` are those of joints by name, and `standing` those of joints that are locked where
    they stand. A parameter that does not fit is a `SettingError`.

    Outputs have the frame_id `frame_id`, or `world_frame` if they are expressed in the world, of
    which `odometry_frame` is the one in the latest odometry. `vector[rows]` selects the numbers of
    v to publish, in the order of `names`; `position_rows` and `position_names` do so for q, and
    `matrix[block]` for matrices (nv, nv). `received` is when the latest complete state was
    received, by time.perf_counter; `payload_changes` counts set and cleared payloads.
    """

    def __init__(
        self,
        description: str,
        values: Mapping[str, Any],
        notify: Callable[[str], None] | None = None,
        payloads: dict[str, tuple] | None = None,
        positions: Mapping[str, float] | None = None,
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
        self.missing_gains: dict[str, str] = {}
        if path := values.get("drives"):  # of all joints, also of those that are locked
            with blamed_on("drives"):
                dyn_ros.load_drives(self.model, path)
                self.missing_gains = missing_gains(path, self.model.velocity_names)
        self.standing: dict[str, float] = {}
        self._lock(values["locked_joints"], positions or {})
        self.includes_friction: bool = values["include_friction"]
        self._select(values["joints"])
        self._set_armature(values["armature"])
        if path := values.get("native_library"):
            with blamed_on("native_library"):
                dyn_ros.load_native(path, self.model)
        self.data = Data(self.model)
        base: tuple[Any, Any] | None = None
        if values["base_source"] == "parameter":
            base = (values["base_pose"], values["base_twist"])
        with blamed_on("base_pose, base_twist"):
            self.collector = MessageCollector(self.model, values["staleness"], base, notify)
        self.root_link = self.model.tree.root_link
        self.frame_id = values["frame_id"] or self.root_link
        self.moving_base = root_joint != "fixed"
        self.odometry_frame = ""
        self._world_frame = values["world_frame"]
        self.received = -math.inf
        self._state: State | None = None  # that `_computed` belongs to
        self._computed: dict[str, Any] = {}
        self._base: Body | None = None  # None after a change of payloads
        self.payloads = {} if payloads is None else payloads
        self.payload_changes = 0
        self.left_out: list[str] = []
        for name, body in self.payloads.items():
            try:
                self.model.set_payload(name, *body)
            except ValueError as error:
                self.left_out.append(f"payload {name!r} is not applied: {error}")

    def begin_state(self, received: float, reads: Iterable[str]) -> State:
        """Return the complete state received at a time [s]; from now on with what `reads` names."""
        self.received = received
        self.collector.collect(reads)
        return self.collector.latest()

    def compute(self, state: State, names: Sequence[str]) -> None:
        """Compute these results of `dyn_ros.all_terms` in `data`, in one pass over the kinematics.

        Terms that depend on the velocity are those of a robot at rest if a velocity is unknown.
        """
        if names:
            dyn_ros.all_terms(self.model, self.data, state.q, state.v, only=names)

    def once(self, state: State, name: str, compute: Callable[[], Result]) -> Result:
        """Return `compute()`, computed once for each state and name."""
        if self._state is not state:
            self._state, self._computed = state, {}
        if name not in self._computed:
            self._computed[name] = compute()
        return self._computed[name]

    def set_payload(self, name: str, *body: Any) -> None:
        """Call `Model.set_payload`, and keep the payload for later descriptions."""
        self.model.set_payload(name, *body)
        self.payloads[name] = body
        self._payloads_changed()

    def clear_payload(self, name: str | None = None) -> None:
        """Call `Model.clear_payload`; also removes a payload that was not applied."""
        if name is not None and name not in self.payloads:
            raise Rejected(unknown_name("payload", name, self.payloads, 20))
        for cleared in list(self.payloads) if name is None else [name]:
            del self.payloads[cleared]
            if cleared in self.model.payloads:
                self.model.clear_payload(cleared)
        self._payloads_changed()

    def _payloads_changed(self) -> None:
        self.payload_changes += 1
        self._base = None

    @property
    def base(self) -> Body:
        """The fixed base link and its payloads, expressed in the root frame."""
        if self._base is None:
            self._base = Body.of(self.model.base_inertia)
        return self._base

    @property
    def world_frame(self) -> str:
        if not self.moving_base:
            return self.frame_id
        return self._world_frame or self.odometry_frame or "world"

    def friction(self, v: Array, torque: Array) -> Array:
        """Return the friction that efforts include beside a torque, (nv,) or (B, nv)."""
        if not self.includes_friction:
            return np.zeros_like(v)
        return dyn_ros.joint_friction(self.model, v, torque)

    def _lock(self, entries: Sequence[str], positions: Mapping[str, float]) -> None:
        """Lock joints, each given as name=position, or as name: where it stands."""
        lock: dict[str, float] = {}
        for entry in entries:
            name, specified, number = (part.strip() for part in entry.partition("="))
            if name not in self.model.joint_names:
                raise SettingError(
                    "locked_joints",
                    f"there is no joint {name!r:.80}; available: {listed(self.model.joint_names)}",
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
                lock[name] = _position(name, number)
            elif name in positions:
                lock[name] = self.standing[name] = positions[name]
        unknown = [name for name, position in lock.items() if math.isnan(position)]
        if unknown:
            raise UnknownPosition(unknown)
        if lock:
            with blamed_on("locked_joints"):
                self.model = self.model.reduced(lock)

    def _select(self, joints: Sequence[str]) -> None:
        model = self.model
        own = independent_joint_indices(model)
        for name in joints:
            if name in own:
                continue
            if name in model.joint_names:
                raise SettingError("joints", f"'{name}' is a mimic joint, without its own row")
            raise SettingError("joints", f"there is no joint '{name}'; available: {listed(own)}")
        if len(set(joints)) != len(joints):
            raise SettingError("joints", "duplicate names in " + listed(joints))
        position_rows, rows = joint_rows(model, joints or own)
        self.names = [model.velocity_names[row] for row in rows]
        self.position_names = [model.position_names[row] for row in position_rows]
        self.rows: Any = np.array(rows, np.intp)
        self.position_rows: Any = np.array(position_rows, np.intp)
        self.block: Any = np.ix_(rows, rows)
        if rows == list(range(model.nv)):
            self.rows = self.position_rows = self.block = slice(None)

    def _set_armature(self, armature: Sequence[float]) -> None:
        if not armature:
            return
        if len(armature) != len(self.names):
            raise SettingError(
                "armature",
                f"expected {len(self.names)} numbers, one for each of "
                f"{listed(self.names)}, but got {len(armature)}",
            )
        if min(armature) < 0.0:
            raise SettingError("armature", f"expected numbers >= 0, but got {armature}")
        values = np.zeros(self.model.nv)
        values[self.rows] = armature
        self.model.armature = values


def _position(name: str, text: str) -> float:
    try:
        position = float(text.replace("_", "?"))  # Python's float accepts 1_0
    except ValueError:
        position = math.nan
    if not math.isfinite(position):
        raise SettingError(
            "locked_joints",
            f"the position of {name} is {text!r:.80}; expected a finite number [rad, m]",
        )
    return position
