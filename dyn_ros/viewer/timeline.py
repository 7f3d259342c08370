# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A timeline that selects the state of the robot to show, and the markers of the same stamp.

A joint state arrives before the markers that nodes compute from it. A page that drew each message
at once would show markers in another posture than the robot. A `Timeline` keeps the latest states,
and holds markers back until all topics that follow the robot have sent theirs of one stamp.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ..engine.kernel.types import Array
from .scene.marker_arrays import ADD

if TYPE_CHECKING:
    from visualization_msgs.msg import MarkerArray

MAX_STATE_AGE = 2.0  # s, relative to the newest stamp; older states are forgotten
MAX_BACKWARD_JUMP = 1.0  # s; an older stamp starts a new history
MAX_STATES = 4096
MAX_MARKER_DELAY = 0.25  # s, in addition to two states; the robot does not wait longer for markers
MAX_SILENCE = 1.0  # s, in addition to two states; then, a topic counts as stopped
MAX_WAITING_ARRAYS = 100  # per topic
TIME_OF_NO_EVENT = -1e9  # s; before any event
NO_STAMP = -1  # ns


class Moment(NamedTuple):
    """A state and the markers to show with it."""

    stamp: int | None  # ns; None if the state has none
    q: Array | None  # (n,), rad or m; None if unchanged
    pose: Array | None  # root link, x y z qx qy qz qw; None if unchanged
    arrays: list[tuple[str, MarkerArray]]  # topics and markers, to be processed in this order
    late_topics: frozenset[str]  # topics that follow the robot, but lack markers of this stamp


class _State(NamedTuple):
    """Positions of the joints, and the pose of the root link if it is known."""

    q: Array
    pose: Array | None


class _WaitingArray(NamedTuple):
    """An array of markers that waits for its state."""

    stamp: int  # ns; 0 if it has none
    array: MarkerArray
    received: float  # s


@dataclass(eq=False)
class _Topic:
    """A topic of markers."""

    queue: deque[_WaitingArray] = field(default_factory=deque)
    follows: bool = False  # its messages have the stamps of states
    last_match: float = TIME_OF_NO_EVENT  # s; arrival of the last array with the stamp of a state
    last_arrival: float = TIME_OF_NO_EVENT  # s
    previous_arrival: float = TIME_OF_NO_EVENT  # s
    shown_stamp: int = NO_STAMP  # ns


class Timeline:
    """The latest states of the robot, and the markers that wait for them.

    Markers whose stamp is that of a state are shown with this state, and only while it is shown.
    The robot waits for topics that keep up with it. Other markers, such as those of objects around
    the robot, are shown as they arrive.
    """

    def __init__(self) -> None:
        self._topics: dict[str, _Topic] = {}
        self.reset()

    def reset(self) -> None:
        """Forget the states, and all markers that wait."""
        self._states: dict[int, _State] = {}
        self._latest_state: _State | None = None
        self._newest_stamp = NO_STAMP  # ns
        self._last_arrival = TIME_OF_NO_EVENT  # s
        self._interval = 0.0  # s; smoothed time between states
        self._shown_stamp = NO_STAMP  # ns
        self._shown_state: _State | None = None
        self._shown_since = TIME_OF_NO_EVENT  # s
        for topic in self._topics.values():
            topic.queue.clear()
            topic.follows, topic.shown_stamp = False, NO_STAMP

    @property
    def has_stamps(self) -> bool:
        """True if states with stamps have been received."""
        return bool(self._states)

    def forget(self, topic: str) -> None:
        """Forget a topic, and its markers that wait."""
        self._topics.pop(topic, None)

    # --- input

    def receive_state(self, stamp: int | None, q: Array, pose: Array | None, now: float) -> None:
        """Process a state that was received at a time [s]; its arrays are kept.

        Without a stamp [ns], None or 0, it is shown at once. `pose` is the pose of the root link.
        """
        state = _State(q, pose)
        if self._states and (not stamp or stamp < self._newest_stamp - MAX_BACKWARD_JUMP * 1e9):
            self.reset()
        self._latest_state = state
        if not stamp:
            return
        # groups of joints report one after the other, possibly with older stamps
        stamp = max(stamp, self._newest_stamp)
        if stamp > self._newest_stamp and self._newest_stamp >= 0:
            interval = min(now - self._last_arrival, MAX_STATE_AGE)
            self._interval += 0.2 * (interval - self._interval)
        self._newest_stamp, self._last_arrival = stamp, now
        self._states[stamp] = state
        while len(self._states) > 1:
            oldest_stamp = next(iter(self._states))
            age = stamp - oldest_stamp
            if len(self._states) <= MAX_STATES and age <= MAX_STATE_AGE * 1e9:
                break
            del self._states[oldest_stamp]

    def receive_markers(self, topic_name: str, array: MarkerArray, now: float) -> None:
        """Process an array of markers that was received at a time [s]; it is kept."""
        topic = self._topics.setdefault(topic_name, _Topic())
        stamp = stamp_of(array)
        if stamp:
            topic.previous_arrival, topic.last_arrival = topic.last_arrival, now
        topic.queue.append(_WaitingArray(stamp, array, now))
        if stamp in self._states:
            topic.follows, topic.last_match = True, now

    # --- choice

    def choose(self, now: float) -> Moment | None:
        """Return the state and the markers to show at a time [s]; None if nothing changes."""
        arrays = self._take_ready_arrays(now)
        stamp = self._choose_stamp()
        if stamp is None:
            latest = self._latest_state
            if self._newest_stamp < 0 and latest is not self._shown_state and latest:
                self._shown_state, self._shown_stamp = latest, NO_STAMP
                return Moment(None, *latest, arrays, frozenset())
            return Moment(None, None, None, arrays, self._late_topics()) if arrays else None
        arrays += self._take_arrays(stamp)
        state = self._states[stamp]
        if stamp != self._shown_stamp:
            self._shown_stamp, self._shown_since = stamp, now
        elif state is self._shown_state and not arrays:
            return None
        self._shown_state = state
        return Moment(stamp, *state, arrays, self._late_topics())

    def _late_topics(self) -> frozenset[str]:
        """Return the topics that follow the robot, but lack markers of the stamp shown."""
        return frozenset(
            name
            for name, topic in self._topics.items()
            if topic.follows and topic.shown_stamp != self._shown_stamp
        )

    def _take_ready_arrays(self, now: float) -> list[tuple[str, MarkerArray]]:
        """Remove and return the arrays that need not wait for a state."""
        arrays = []
        for name, topic in self._topics.items():
            for waiting in topic.queue:
                if waiting.stamp in self._states:
                    topic.follows = True
                    topic.last_match = max(waiting.received, topic.last_match)
            if topic.follows and topic.last_arrival - topic.last_match > self._delay(MAX_SILENCE):
                topic.follows = False  # its stamps are from another clock
            while topic.queue and not self._must_wait(topic, topic.queue[0], now):
                waiting = topic.queue.popleft()
                arrays.append((name, waiting.array))
                if not waiting.stamp:
                    topic.follows = False  # markers without a stamp cannot be late
        return arrays

    def _must_wait(self, topic: _Topic, waiting: _WaitingArray, now: float) -> bool:
        """Return True if an array of a topic still waits for its state."""
        if not waiting.stamp or not self._states:
            return False
        if topic.follows:
            return len(topic.queue) <= MAX_WAITING_ARRAYS
        if waiting.stamp in self._states:
            return True
        is_recent = now - waiting.received < self._delay(MAX_MARKER_DELAY)
        return waiting.stamp > self._newest_stamp and is_recent

    def _delay(self, seconds: float) -> float:
        """Return a delay [s] to tolerate, plus the time of two states."""
        return seconds + 2.0 * self._interval

    def _keeps_up(self, topic: _Topic) -> bool:
        """Return True if the robot should wait for a topic."""
        max_delay = self._delay(MAX_MARKER_DELAY)
        return (
            topic.follows
            and self._last_arrival - topic.last_arrival < max_delay
            and topic.last_arrival - topic.previous_arrival < max_delay
        )

    def _choose_stamp(self) -> int | None:
        """Return the stamp of the state to show; None to keep the one that is shown."""
        if not self._states:
            return None
        topics = [topic for topic in self._topics.values() if self._keeps_up(topic)]
        if not topics:
            return self._newest_stamp
        stamps_of_topics = [self._available_stamps(topic) for topic in topics]
        newest = max(set.intersection(*stamps_of_topics), default=NO_STAMP)
        if newest > self._shown_stamp:
            return newest
        if self._last_arrival - self._shown_since < self._delay(MAX_MARKER_DELAY):
            # show the state again: further markers of it, or of other joints, may have arrived
            return self._shown_stamp if self._shown_stamp in self._states else None
        candidates = set.union(*stamps_of_topics) - {self._shown_stamp}
        return max(
            candidates,
            key=lambda stamp: (sum(stamp in stamps for stamps in stamps_of_topics), stamp),
            default=self._newest_stamp,
        )

    def _available_stamps(self, topic: _Topic) -> set[int]:
        """Return the stamps of a topic's markers for states not older than the one shown."""
        stamps = {
            waiting.stamp
            for waiting in topic.queue
            if waiting.stamp in self._states and waiting.stamp >= self._shown_stamp
        }
        if topic.shown_stamp == self._shown_stamp >= 0:
            stamps.add(topic.shown_stamp)
        return stamps

    def _take_arrays(self, stamp: int) -> list[tuple[str, MarkerArray]]:
        """Remove and return the arrays up to a stamp, of the topics that have it."""
        arrays = []
        for name, topic in self._topics.items():
            if not topic.follows:
                continue
            indices = (i for i, waiting in enumerate(topic.queue) if waiting.stamp == stamp)
            last = max(indices, default=-1)
            if last >= 0:
                topic.shown_stamp = stamp
            for _ in range(last + 1):
                arrays.append((name, topic.queue.popleft().array))
        return arrays

    def notes(self) -> list[str]:
        """Return a sentence for each topic whose markers are hidden because it lags behind."""
        texts = []
        for name, topic in self._topics.items():
            if not topic.follows or topic.shown_stamp == self._shown_stamp:
                continue
            interval = topic.last_arrival - topic.previous_arrival
            if self._last_arrival - topic.last_arrival > self._delay(MAX_SILENCE):
                texts.append(f"{name} has stopped; its markers are hidden")
            elif interval > self._delay(MAX_MARKER_DELAY):
                texts.append(f"{name} is slower than the robot, so its markers are hidden at times")
        return texts


def stamp_of(array: MarkerArray) -> int:
    """Return the stamp of the markers that an array adds [ns], 0 if there are none."""
    for marker in array.markers:
        stamp = marker.header.stamp
        if marker.action == ADD and (stamp.sec or stamp.nanosec):
            return int(stamp.sec * 1_000_000_000 + stamp.nanosec)
    return 0
