# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Robot and markers of one stamp: with delays, losses, topics that stop, and other clocks."""

import heapq
from types import SimpleNamespace

import numpy as np
import pytest

from dyn_ros.viewer.timeline import MAX_MARKER_DELAY, MAX_SILENCE, Timeline

MS = 1_000_000
BEGIN = 1_700_000_000_000 * MS
TOPICS = ("dynamics", "centroidal", "vereshchagin", "observer")


def array(stamp):
    header = SimpleNamespace(stamp=SimpleNamespace(sec=stamp // 10**9, nanosec=stamp % 10**9))
    return SimpleNamespace(markers=[SimpleNamespace(header=header, action=0)], number=stamp)


class Page:
    """A page that is updated from a timeline."""

    def __init__(self):
        self.timeline = Timeline()
        self.robot, self.markers, self.late = None, {}, frozenset()
        self.changes = []  # (time, stamp of the robot, stamps of the shown markers)

    def update(self, now):
        moment = self.timeline.choose(now)
        if moment is None:
            return
        for topic, array in moment.arrays:
            self.markers[topic] = array.number
        if moment.q is not None:
            self.robot = moment.stamp if moment.stamp is not None else round(moment.q[0])
        self.late = moment.late_topics
        self.changes.append((now, self.robot, self.shown))

    @property
    def shown(self):
        return {topic: stamp for topic, stamp in self.markers.items() if topic not in self.late}


def run(
    seconds,
    period=10,
    delays=(),
    lost=lambda topic, k: False,
    rate=30.0,
    tick=33,
    page=None,
    begin=0,
):
    """Play a robot and its nodes; the state k is received at k * period [ms].

    `delays` are functions (k) that return the delay of each topic [ms].
    """
    page = page or Page()
    timeline, events = page.timeline, []
    last = None
    for k in range(begin, begin + int(seconds * 1000 / period)):
        at, stamp = k * period, BEGIN + k * period * MS
        heapq.heappush(events, (at, 0, "state", stamp))
        new = int(stamp * 1e-9 * rate)
        if new != last:
            last = new
            for topic, delay in zip(TOPICS, delays):
                if not lost(topic, k):
                    heapq.heappush(events, (at + delay(k), 1, topic, stamp))
    for at in range(begin * period, int(begin * period + seconds * 1000), tick):
        heapq.heappush(events, (at, 2, "tick", 0))
    while events:
        at, _, event, stamp = heapq.heappop(events)
        if event == "tick":
            page.update(at * 1e-3)
        elif event == "state":
            timeline.receive_state(stamp, np.array([stamp]), None, at * 1e-3)
        else:
            timeline.receive_markers(event, array(stamp), at * 1e-3)
    return page


def consistent(page):
    return all(set(shown.values()) <= {robot} for _, robot, shown in page.changes)


def steady(page, after=0.3):
    return [change for change in page.changes if change[0] > after]


def random_delays(seed=0, longest=60.0):
    rng = np.random.default_rng(seed)
    return [lambda k, rng=rng: rng.uniform(1.0, longest) for _ in TOPICS]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("period", [1, 5, 10, 25])
def test_robot_and_all_markers_are_of_one_stamp(seed, period):
    page = run(3.0, period, random_delays(seed))
    assert consistent(page)
    assert all(len(shown) == 4 for _, _, shown in steady(page))
    stamps = [robot for _, robot, _ in page.changes]
    assert stamps == sorted(stamps) and len(set(stamps)) > 2.0 * 25.0


def test_the_robot_is_as_late_as_the_slowest_topic_and_no_later():
    page = run(3.0, 10, [lambda k: 2.0, lambda k: 20.0], tick=5)
    ages = [now - (robot - BEGIN) * 1e-9 for now, robot, _ in steady(page)]
    assert max(ages) < 0.020 + 2 * 0.005


def test_lost_messages_do_not_break_the_unity():
    rng = np.random.default_rng(1)
    page = run(3.0, 10, random_delays(), lost=lambda topic, k: rng.uniform() < 0.2)
    assert consistent(page)
    gaps = np.diff([now for now, _, _ in page.changes])
    assert gaps.max() < MAX_MARKER_DELAY + 0.1, gaps.max()


def test_without_markers_the_robot_is_drawn_at_once():
    page = run(1.0, 10)
    assert all(now - (robot - BEGIN) * 1e-9 < 0.011 for now, robot, _ in page.changes)


def test_a_topic_that_stops_freezes_nothing_and_its_markers_are_hidden():
    page = run(3.0, 10, [lambda k: 2.0] * 2, lost=lambda topic, k: topic == "dynamics" and k > 100)
    assert consistent(page)
    assert np.diff([now for now, _, _ in page.changes]).max() < MAX_MARKER_DELAY + 0.1
    assert set(page.shown) == {"centroidal"}
    (note,) = page.timeline.notes()
    assert note.startswith("dynamics has stopped")
    page = run(1.0, 10, [lambda k: 2.0] * 2, page=page, begin=300)
    assert set(page.shown) == {"centroidal", "dynamics"} and consistent(page)
    assert not page.timeline.notes()


def test_all_topics_stop():
    page = run(3.0, 10, [lambda k: 2.0] * 2, lost=lambda topic, k: k > 100)
    assert consistent(page) and not page.shown
    assert len(page.timeline.notes()) == 2
    now, robot, _ = page.changes[-1]
    assert now - (robot - BEGIN) * 1e-9 < 0.011


def test_a_robot_that_stops_keeps_its_markers():
    page = run(1.0, 10, [lambda k: 2.0] * 4)
    for now in np.arange(1.0, 1.0 + 2 * MAX_SILENCE, 0.033):
        page.update(now)
    assert len(page.shown) == 4 and consistent(page)
    assert not page.timeline.notes()


def test_one_state_and_its_markers():
    page = Page()
    page.timeline.receive_state(BEGIN, np.zeros(1), None, 0.0)
    page.update(0.01)
    page.timeline.receive_markers("dynamics", array(BEGIN), 0.02)
    page.update(0.03)
    assert page.shown == {"dynamics": BEGIN} and page.robot == BEGIN


def test_slow_states():
    page = run(20.0, 500, [lambda k: 30.0, lambda k: 80.0])
    assert consistent(page)
    assert all(len(shown) == 2 for _, _, shown in steady(page, 4.0))


def test_a_slow_topic_does_not_slow_the_robot():
    page = run(
        5.0,
        10,
        [lambda k: 2.0, lambda k: 2.0],
        lost=lambda topic, k: topic == "dynamics" and k // 100 == (k - 4) // 100,
    )
    assert consistent(page)
    assert np.diff([now for now, _, _ in steady(page)]).max() < 0.1
    (note,) = page.timeline.notes()
    assert note.startswith("dynamics is slower than the robot")


def test_markers_of_another_clock_are_shown_as_they_arrive():
    page = run(1.0, 10, [lambda k: 2.0])
    for k in range(60):
        now = 1.0 + 0.033 * k
        stamp = BEGIN + round(now * 1000) * MS
        page.timeline.receive_state(stamp, np.array([stamp]), None, now)
        page.timeline.receive_markers("dynamics", array(stamp), now)
        page.timeline.receive_markers("objects", array(5 * MS + k), now)
        page.update(now)
        assert page.markers["objects"] == 5 * MS + k and "objects" in page.shown


def test_an_array_without_stamps_is_processed_at_once():
    page = run(1.0, 10, [lambda k: 2.0])
    page.timeline.receive_markers("dynamics", array(0), 1.0)
    page.update(1.0)
    assert page.markers["dynamics"] == 0


def test_a_topic_that_deletes_its_markers_has_not_stopped():
    page = run(1.0, 10, [lambda k: 2.0] * 2)
    deletion = array(BEGIN + 990 * MS)
    deletion.markers[0].action = 3
    page.timeline.receive_markers("dynamics", deletion, 1.0)
    page = run(
        2.0,
        10,
        [lambda k: 2.0] * 2,
        page=page,
        begin=100,
        lost=lambda topic, k: topic == "dynamics",
    )
    assert not page.timeline.notes()
    assert np.diff([now for now, _, _ in page.changes]).max() < 0.1


def test_states_without_stamps_are_drawn_at_once():
    page = Page()
    for k in range(1, 5):
        page.timeline.receive_state(None, np.array([k]), None, 0.01 * k)
        page.timeline.receive_markers("dynamics", array(BEGIN + k), 0.01 * k)
        page.update(0.01 * k)
        assert page.robot == k and page.shown == {"dynamics": BEGIN + k}


def test_stamps_that_jump_back_start_again():
    page = run(2.0, 10, [lambda k: 2.0], begin=1000)
    page.timeline.receive_state(BEGIN, np.array([BEGIN]), None, 12.1)
    page.update(12.13)
    assert page.robot == BEGIN
    page.timeline.receive_markers("dynamics", array(BEGIN), 12.14)
    page.update(12.16)
    assert page.shown == {"dynamics": BEGIN}


def test_the_history_is_bounded():
    page = run(10.0, 1)
    assert len(page.timeline._states) <= 2001


def test_the_pose_belongs_to_the_state():
    timeline = Timeline()
    for k, pose in enumerate((np.zeros(7), np.ones(7))):
        timeline.receive_state(BEGIN + 10 * k * MS, np.zeros(1), pose, 0.01 * k)
        np.testing.assert_array_equal(timeline.choose(0.01 * k).pose, pose)


def test_a_topic_that_is_forgotten_is_not_waited_for():
    page = run(1.0, 10, [lambda k: 2.0] * 2)
    page.timeline.forget("dynamics")
    assert not page.timeline.notes()
    page = run(
        1.0,
        10,
        [lambda k: 2.0] * 2,
        page=page,
        begin=100,
        lost=lambda topic, k: topic == "dynamics",
    )
    assert np.diff([now for now, _, _ in page.changes]).max() < 0.1
