# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Which state of the robot to show, with the markers of the same stamp.

A joint state arrives before the markers that nodes compute from it. A page that drew each message
at once would show markers in another posture than the robot. A `Timeline` keeps the latest states,
and holds markers back until those of all topics that follow the robot have the same stamp.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ..engine.kernel.types import Array
from .scene.marker_arrays import ADD

if TYPE_CHECKING:
    from visualization_msgs.msg import MarkerArray

HISTORY = 2.0  # states with stamps older than the newest one's by more are forgotten [s]
JUMP = 1.0  # stamps that go back by more start a new history [s]
MOST_STATES = 4096  # kept at once
PATIENCE = 0.25  # how long the robot waits for markers, in addition to two states [s]
STOPPED = 1.0  # age at which a topic counts as stopped, in addition to two states [s]
MOST_ARRAYS = 100  # held back for each topic


class Moment(NamedTuple):
    """What belongs on the page together: a stamp [ns] (None if the state has none), and markers.

    Joint positions `q` (n,) [rad, m] and the root link's `pose` x y z qx qy qz qw are None if they
    are as before. `arrays` are topics and arrays of markers, to process in this order; `late` are
    topics that follow the robot, but have no markers of this stamp: to be hidden.
    """

    stamp: int | None
    q: Array | None
    pose: Array | None
    arrays: list[tuple[str, MarkerArray]]
    late: frozenset[str]


class _State(NamedTuple):
    q: Array
    pose: Array | None


class _Held(NamedTuple):
    """An array that waits for its state."""

    stamp: int
    array: MarkerArray
    received: float


@dataclass(eq=False)
class _Topic:
    held: deque[_Held] = field(default_factory=deque)
    follows: bool = False  # stamps are those of states
    matched: float = -1e9  # when that was last so [s]
    last: float = -1e9  # arrival of the last array [s]
    previous: float = -1e9  # and of the one before
    shown: int = -1  # stamp of the markers that are shown [ns]
    count: int = 0


class Timeline:
    """The latest states of the robot, and markers that wait for theirs.

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
        self._latest: _State | None = None
        self._newest = -1  # newest stamp [ns]
        self._received = -1e9  # arrival of the newest state [s]
        self._interval = 0.0  # usual time between states [s]
        self._shown = -1  # stamp of the state that is shown [ns]
        self._drawn: _State | None = None
        self._since = -1e9  # when it was chosen [s]
        for topic in self._topics.values():
            topic.held.clear()
            topic.follows, topic.shown = False, -1

    @property
    def has_stamps(self) -> bool:
        return bool(self._states)

    def forget(self, topic: str) -> None:
        self._topics.pop(topic, None)

    # --- input

    def receive_state(self, stamp: int | None, q: Array, pose: Array | None, now: float) -> None:
        """Process a state that was received at a time [s]; its arrays are kept.

        Without a stamp [ns], None or 0, it is shown at once. `pose` is that of the root link.
        """
        state = _State(q, pose)
        if self._states and (not stamp or stamp < self._newest - JUMP * 1e9):
            self.reset()
        self._latest = state
        if not stamp:
            return
        stamp = max(stamp, self._newest)  # parts of the robot report one after the other
        if stamp > self._newest and self._newest >= 0:
            self._interval += 0.2 * (min(now - self._received, HISTORY) - self._interval)
        self._newest, self._received = stamp, now
        self._states[stamp] = state
        while len(self._states) > 1:
            oldest = next(iter(self._states))
            if len(self._states) <= MOST_STATES and stamp - oldest <= HISTORY * 1e9:
                break
            del self._states[oldest]

    def receive_markers(self, topic: str, array: MarkerArray, now: float) -> None:
        """Process an array of markers that was received at a time [s]; it is kept."""
        known = self._topics.setdefault(topic, _Topic())
        stamp = stamp_of(array)
        if stamp:
            known.previous, known.last = known.last, now
        known.held.append(_Held(stamp, array, now))
        if stamp in self._states:
            known.follows, known.matched = True, now

    # --- choice

    def choose(self, now: float) -> Moment | None:
        """Return what to show at a time [s]; None if nothing changes."""
        arrays = self._take_free(now)
        stamp = self._stamp_to_show()
        if stamp is None:
            if self._newest < 0 and self._latest is not self._drawn and self._latest:
                self._drawn, self._shown = self._latest, -1
                return Moment(None, *self._latest, arrays, frozenset())
            return Moment(None, None, None, arrays, self._late()) if arrays else None
        arrays += self._take(stamp)
        state = self._states[stamp]
        if stamp != self._shown:
            self._shown, self._since = stamp, now
        elif state is self._drawn and not arrays:
            return None
        self._drawn = state
        return Moment(stamp, *state, arrays, self._late())

    def _late(self) -> frozenset[str]:
        return frozenset(
            name
            for name, topic in self._topics.items()
            if topic.follows and topic.shown != self._shown
        )

    def _take_free(self, now: float) -> list[tuple[str, MarkerArray]]:
        """Return the arrays that wait for no state."""
        free = []
        for name, topic in self._topics.items():
            for held in topic.held:
                if held.stamp in self._states:
                    topic.follows, topic.matched = True, max(held.received, topic.matched)
            if topic.follows and topic.last - topic.matched > self._patience(STOPPED):
                topic.follows = False  # another clock
            while topic.held and not self._waits(topic, topic.held[0], now):
                held = topic.held.popleft()
                free.append((name, held.array))
                if not held.stamp:
                    topic.follows = False  # there is nothing that could be late
        return free

    def _waits(self, topic: _Topic, held: _Held, now: float) -> bool:
        if not held.stamp or not self._states:
            return False
        if topic.follows:
            return len(topic.held) <= MOST_ARRAYS
        if held.stamp in self._states:
            return True
        return held.stamp > self._newest and now - held.received < self._patience(PATIENCE)

    def _patience(self, seconds: float) -> float:
        return seconds + 2.0 * self._interval

    def _keeps_up(self, topic: _Topic) -> bool:
        """Whether the robot should wait for a topic."""
        longest = self._patience(PATIENCE)
        return (
            topic.follows
            and self._received - topic.last < longest
            and topic.last - topic.previous < longest
        )

    def _stamp_to_show(self) -> int | None:
        """Return the stamp of the state to show; None: no other than now."""
        if not self._states:
            return None
        following = [topic for topic in self._topics.values() if self._keeps_up(topic)]
        if not following:
            return self._newest
        offers = [self._offers(topic) for topic in following]
        newest = max(set.intersection(*offers), default=-1)
        if newest > self._shown:
            return newest
        if self._received - self._since < self._patience(PATIENCE):
            # the same again: another topic may have completed it, or its parts have changed
            return self._shown if self._shown in self._states else None
        either = set.union(*offers) - {self._shown}
        return max(
            either,
            key=lambda stamp: (sum(stamp in stamps for stamps in offers), stamp),
            default=self._newest,
        )

    def _offers(self, topic: _Topic) -> set[int]:
        """Return the stamps of states, not older than the one shown, that a topic has."""
        stamps = {
            held.stamp
            for held in topic.held
            if held.stamp in self._states and held.stamp >= self._shown
        }
        return stamps | {topic.shown} if topic.shown == self._shown >= 0 else stamps

    def _take(self, stamp: int) -> list[tuple[str, MarkerArray]]:
        """Return the arrays up to this stamp, of the topics that have it."""
        taken = []
        for name, topic in self._topics.items():
            if not topic.follows:
                continue
            last = max((i for i, held in enumerate(topic.held) if held.stamp == stamp), default=-1)
            if last >= 0:
                topic.shown = stamp
            for _ in range(last + 1):
                taken.append((name, topic.held.popleft().array))
        return taken

    def notes(self) -> list[str]:
        """Return which topics no longer show the robot that moves, as sentences."""
        texts = []
        for name, topic in self._topics.items():
            if not topic.follows or topic.shown == self._shown:
                continue
            age = self._received - topic.last
            if age > self._patience(STOPPED):
                texts.append(f"{name} has stopped; its markers are hidden")
            elif topic.last - topic.previous > self._patience(PATIENCE):
                texts.append(f"{name} is slower than the robot, so its markers are hidden at times")
        return texts


def stamp_of(array: MarkerArray) -> int:
    """Return the stamp of the markers that an array adds [ns], 0 if there are none."""
    for marker in array.markers:
        stamp = marker.header.stamp
        if marker.action == ADD and (stamp.sec or stamp.nanosec):
            return int(stamp.sec * 1_000_000_000 + stamp.nanosec)
    return 0
