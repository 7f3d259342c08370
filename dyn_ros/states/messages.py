# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Collector of states from messages as they arrive, one by one. Independent of ROS."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from ..cdr.decode import DYNAMIC_JOINT_STATE, JOINT_STATE, Decoder
from ..cdr.interface_layout import InterfaceLayout
from ..engine.call.algorithm import load_function
from ..engine.model.model import Model
from . import kernel
from . import memory as mem
from .collector import Base, Collector, Joints
from .joint_states import (
    MAX_NAME_LISTS,
    NO_STAMP,
    STALENESS,
    Numbers,
    Reception,
    Rejected,
    State,
)
from .jump_kernel import POSITION_JUMPED
from .jumps import PositionJumps, smallest_jumps, turning_joints
from .kernel import ACCEPTED, NEW_STATE, STAMP_JUMPED, UNREAD
from .memory import KNOWS_ACCELERATION, KNOWS_EFFORT, KNOWS_VELOCITY, NEWEST_STAMP
from .rules import check_interface_counts, is_root_link

ENTRIES_BY_TYPE = {
    JOINT_STATE: kernel.COLLECT_MESSAGES,
    DYNAMIC_JOINT_STATE: kernel.COLLECT_DYNAMIC_MESSAGES,
}
"""Compiled functions that collect serialized joint states, by their type."""

# faster than attributes of the class
_RECEPTION_NEW_STATE = Reception.NEW_STATE
_RECEPTION_NO_STATE = Reception.NO_STATE


class MessageCollector(Collector):
    """Collector of the state of a robot. A message that cannot be used raises `Rejected`.

    The base may be floating or planar (first joint below the universe); any other joint of several
    degrees of freedom is a `ValueError`, as no message reports its state. `notify` is called when
    the collected state is discarded. `jumps` has the jumps of positions. The state is `q` (nq,),
    `v` (nv,) and the efforts `tau` (nv,), zero for a base, whose wrench is not reported; the next
    message overwrites it. `constant` is True if no message changes the state: there are no joints,
    and no base with odometry. The only entry of `name_list` is the number of the list of names in
    the latest joint states. `unknown` are the names in joint states that are not joints of the
    model. `message_type` is the type of serialized messages, a key of `ENTRIES_BY_TYPE`.
    """

    def __init__(
        self,
        model: Model | Joints,
        staleness: float = STALENESS,
        base: Base | None = None,
        notify: Callable[[str], object] | None = None,
        message_type: str = JOINT_STATE,
        jumps: PositionJumps | None = None,
    ) -> None:
        super().__init__(model, staleness, base)
        self.jumps = jumps or PositionJumps()
        self._differentiated_jumps = 0  # those after which the accelerations have restarted
        if isinstance(model, Model):
            self._find_jumps(model)
        arrays = self._arrays
        self.q, self.v, self.tau = arrays.q, arrays.v, arrays.tau
        self.collects_effort = self._differentiates = False
        self._acceleration = arrays.acceleration
        self.unknown: tuple[str, ...] = ()
        self.constant = not len(self._reported_stamps)
        self._notify = notify or (lambda text: None)
        self._flags = memoryview(self._scalars)  # far faster to read than an array
        self._scalars[[mem.IS_COMPLETE, KNOWS_VELOCITY]] = self.constant
        self._scalars[mem.MESSAGE_END] = 1
        self._call = load_function(ENTRIES_BY_TYPE[message_type])
        arrays.name_list, arrays.stamp, arrays.log_time, arrays.start, arrays.is_foreign_frame = (
            np.zeros((5, 1), np.int64)
        )
        arrays.counts, arrays.head = np.zeros((1, 3), np.int64), np.zeros(8, np.int64)
        self._reset_names()
        self.name_list = memoryview(arrays.name_list)
        self._reserve_numbers(32)

    def _find_jumps(self, model: Model) -> None:
        """Find jumps of the positions of joints with one coordinate."""
        smallest, turning = smallest_jumps(model), turning_joints(model)
        for slot, name in enumerate(self._joints.names):
            if name in self.names and name in smallest:
                self._arrays.smallest_jump[self._joints.idx_q[slot]] = smallest[name]
                self._arrays.has_turns[slot] = name in turning

    def _reset_names(self) -> None:
        """Forget all lists of names: replace the decoder, and clear the tables of names."""
        self._decoder = Decoder()
        self._decoder.child_frame_number("")  # is replaced by the latest one
        self._arrays.is_foreign_frame[0] = False
        self._arrays.name_list_rows = self._arrays.entries = mem.EMPTY_TABLE
        self._scalars[mem.LATEST_LIST] = -1  # compiled code would read behind the lists
        self._update_addresses()

    def _update_addresses(self) -> None:
        """Update the addresses for compiled code, also of the decoder's lists of names."""
        self._arrays.strings, self._arrays.string_lists = (
            self._decoder.strings,
            self._decoder.string_lists,
        )
        self._scalars[mem.LIST_COUNT] = len(self._decoder.string_lists)
        super()._update_addresses()

    def _reserve_numbers(self, count: int) -> None:
        """Extend the memory, if necessary, to a message with `count` numbers."""
        if count > len(self._arrays.numbers):
            self._arrays.numbers = np.zeros(2 * count)
            self._arrays.bits = self._arrays.numbers.view(np.int64)
            self._scalars[mem.CAPACITY] = 16 * count
            self._update_addresses()

    # --- the state

    @property
    def stamp(self) -> int:
        """Newest stamp in the state, or NO_STAMP [ns]."""
        return self._flags[NEWEST_STAMP]

    @property
    def complete(self) -> bool:
        """False if the position of some joint is unknown or stale; q must not be used then."""
        return bool(self._flags[mem.IS_COMPLETE])

    @property
    def velocity_known(self) -> bool:
        """False if the velocity of some joint is unknown; v must not be used then."""
        return bool(self._flags[KNOWS_VELOCITY])

    @property
    def effort_known(self) -> bool:
        """False if the effort of some joint is unknown; tau must not be used then."""
        return bool(self._flags[KNOWS_EFFORT])

    @property
    def staleness(self) -> float:
        """Largest difference between the stamps within one state [s]."""
        return self._flags[mem.STALENESS] * 1e-9

    @property
    def cutoff(self) -> float:
        """Cutoff frequency of the low pass of the accelerations [Hz]; 0: no low pass.

        It is of first order, and exact for a difference of velocities that is held for the time h
        between two stamps. A slowly varying signal is delayed by h / 2 + h / (exp(2 pi cutoff h)
        - 1), about 1 / (2 pi cutoff). The filter starts with the first difference, and again if a
        stamp goes back or is more than `staleness` after the previous one. A coordinate whose stamp
        does not change keeps its acceleration.
        """
        return float(self._arrays.cutoff[0])

    @cutoff.setter
    def cutoff(self, frequency: float) -> None:
        self._arrays.cutoff[0] = frequency

    def collect_quantities(self, quantities: Iterable[str]) -> None:
        """Collect "effort" or "acceleration" from now on: efforts with the next message."""
        if "effort" in quantities and not self.collects_effort:
            self.collects_effort = True
            self._clear_efforts()
        if "acceleration" in quantities and not self._differentiates:
            self._differentiates = self._scalars[mem.DIFFERENTIATES] = True
            if self.velocity_known:
                arrays = self._arrays
                arrays.v_before[:], arrays.stamps_before[:] = arrays.v, arrays.stamps[arrays.slots]
                arrays.has_acceleration[:] = arrays.stamps_before == NO_STAMP
                self._scalars[KNOWS_ACCELERATION] = arrays.has_acceleration.all()

    def latest_state(self) -> State:
        """Return the latest state; its arrays are overwritten by the next message."""
        flags = self._flags
        if self._differentiates and self._differentiated_jumps != self.jumps.count:
            self._restart_accelerations()
        return State(
            self.q,
            self.v,
            flags[NEWEST_STAMP],
            () if flags[KNOWS_VELOCITY] else self.missing_velocity(),
            self.tau if self.collects_effort and flags[KNOWS_EFFORT] else None,
            self._acceleration if self._differentiates and flags[KNOWS_ACCELERATION] else None,
        )

    def _restart_accelerations(self) -> None:
        """Forget the accelerations, and the velocities from which the next ones would follow.

        A driver that differentiates positions reports an arbitrary velocity with a jump.
        """
        self._differentiated_jumps = self.jumps.count
        self._arrays.stamps_before[:] = NO_STAMP
        self._flags[KNOWS_ACCELERATION] = False

    def joints_behind(self, seconds: float) -> list[str]:
        """Return the names of the joints whose stamps are older than the newest by more [s]."""
        return self._joints_older_than(self.stamp - round(seconds * 1e9))

    def missing_velocity(self) -> list[str]:
        """Return the names of the joints whose velocity is unknown."""
        return [self._joints.names[i] for i in np.flatnonzero(self._arrays.has_velocity == 0)]

    def missing_effort(self) -> list[str]:
        """Return the names of the joints whose effort is unknown."""
        slots = self._arrays.slots[self._arrays.has_effort == 0]
        return [self._joints.names[slot] for slot in slots]

    # --- messages

    def receive(self, data: bytes, now: Callable[[], int]) -> Reception:
        """Process serialized joint states; raise errors as `receive_joint_states`.

        They are UNREAD, without an effect, unless they are plain little-endian CDR with known
        names.
        `now` returns the stamp of a message that has none [ns].
        """
        outcome = self._call(data, len(data), self._address, NO_STAMP) if data else UNREAD
        if outcome == NEW_STATE:
            return _RECEPTION_NEW_STATE
        if outcome == UNREAD and len(data) > self._flags[mem.CAPACITY]:
            self._reserve_numbers(len(data))
            return self.receive(data, now)
        if outcome == kernel.UNSTAMPED:
            outcome = self._call(data, len(data), self._address, now())
        return self._process_outcome(outcome)

    def receive_joint_states(
        self,
        names: Sequence[str],
        position: Numbers,
        velocity: Numbers,
        effort: Numbers,
        stamp: int,
    ) -> Reception:
        """Process a sensor_msgs/JointState.

        The stamp is in ns. Raise `Rejected` for no names, duplicate names, lengths that do not
        match, a value for a joint of the model that is not finite or exceeds `MAX_MAGNITUDE`, or a
        stamp slightly older than the last one.
        """
        names = tuple(names)

        def add_names() -> int:
            """Add the list of names to the decoder, and return its number."""
            number = self._decoder.name_list_number(names)
            self._decoder.add_string_list(0, number, _encode_names(names))
            return number

        list_number = self._name_list_number(names, add_names)
        return self._process_fields(list_number, stamp, position, velocity, effort)

    def receive_interfaces(
        self,
        names: Sequence[str],
        interface_names: Sequence[Sequence[str]],
        values: Sequence[Numbers],
        stamp: int,
    ) -> Reception:
        """Process a control_msgs/DynamicJointState, as joint states; see `InterfaceLayout`.

        `interface_names` and `values` belong to each entry. Also raise `Rejected` for numbers
        of entries, interfaces and values that do not match.
        """
        check_interface_counts(names, interface_names, values)
        layout = InterfaceLayout(
            _encode_names(names), tuple(_encode_names(entry) for entry in interface_names)
        )
        list_number = self._name_list_number(layout, lambda: self._decoder.add_layout(layout))
        return self._process_fields(list_number, stamp, *layout.fields(values))

    def _name_list_number(
        self, key: tuple[str, ...] | InterfaceLayout, add: Callable[[], int]
    ) -> int:
        """Return the number of a list of names or a layout; if it is new, `add` it."""
        list_number = self._decoder.find_name_list(key)
        if list_number is None:
            if len(self._decoder.name_lists) >= MAX_NAME_LISTS:
                self._reset_names()
            list_number = add()
            self._extend_name_lists(list_number + 1)
            self._update_addresses()
        return list_number

    def receive_odometry(
        self, pose: Sequence[float], twist: Sequence[float], stamp: int, child: str = ""
    ) -> Reception:
        """Process the base's pose (x y z qx qy qz qw) in the world and twist in the base frame.

        `child` is the child_frame_id. Raise `Rejected` if it is not the root link, if a number
        cannot be used, or if the stamp is slightly older than the last one. The message is ignored
        if the base does not move.
        """
        if not self.needs_odometry:
            return _RECEPTION_NO_STATE
        if child != self._decoder.child_frames[0]:
            self._decoder.child_frames[0] = child
            self._arrays.is_foreign_frame[0] = not is_root_link(child, self._joints.root_link)
        return self._process_fields(-1, stamp, pose, twist, ())

    def _process_fields(self, list_number: int, stamp: int, *fields: Numbers) -> Reception:
        """Process a message from its numbers, as the only one of the block."""
        counts = [len(field) for field in fields]
        self._reserve_numbers(sum(counts))
        arrays, start = self._arrays, 0
        for field, count in zip(fields, counts):
            arrays.numbers[start : start + count] = field
            start += count
        arrays.name_list[0], arrays.stamp[0], arrays.counts[0] = list_number, stamp, counts
        return self._process_outcome(self._process_block())

    def _process_outcome(self, outcome: int) -> Reception:
        """Return the reception of an outcome; raise, or notify of, the fault that was recorded."""
        if outcome == kernel.NEW_NAMES:
            outcome = self._process_block()
        if outcome >= POSITION_JUMPED:
            self._record_jumps(outcome & STAMP_JUMPED != 0)
            outcome -= POSITION_JUMPED
        if outcome == NEW_STATE:
            return _RECEPTION_NEW_STATE
        if outcome == ACCEPTED:
            return _RECEPTION_NO_STATE
        if outcome == UNREAD:
            return Reception.UNREAD
        reason = self._flags[mem.LATEST_FAULT]
        self._arrays.faults[reason, mem.FAULT_COUNT] = 0
        if outcome == kernel.REJECTED:
            raise Rejected(self._fault_text(reason))
        self._notify(self._fault_text(reason))
        return _RECEPTION_NEW_STATE if outcome & NEW_STATE else _RECEPTION_NO_STATE

    def _record_jumps(self, stamp_jumped: bool) -> None:
        """Pass the jumps of the latest message to `jumps`."""
        arrays = self._arrays
        stamp, kinds = int(arrays.stamp[0]), arrays.jumps[:, mem.JUMP_KIND]
        for slot in np.flatnonzero(kinds).tolist():
            kind, before, after = arrays.jumps[slot].tolist()
            name = self._joints.names[slot]
            if kind == mem.JUMP:
                self.jumps.record(name, before, after, stamp, stamp_jumped)
            else:
                self.jumps.record_turns(name, before, after, stamp)
        kinds[:] = mem.NO_JUMP

    def _report_unknown_names(self, names: list[str]) -> None:
        """Add names to `unknown`."""
        self.unknown = tuple(dict.fromkeys([*self.unknown, *names]))

    def _forget_name_lists(self) -> None:
        """Forget all name lists, and `unknown`, which would grow if names never repeat."""
        super()._forget_name_lists()
        self.unknown = ()


def _encode_names(names: Sequence[str]) -> tuple[bytes, ...]:
    """Return names as they are serialized."""
    return tuple(name.encode("utf-8", "surrogatepass") for name in names)
