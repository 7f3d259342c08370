# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Recordings on the page, without a browser: any time of them, and what is computed."""

import time

import numpy as np
import pytest

pytest.importorskip("viser", reason="no viser: pip install viser")
pytest.importorskip("mcap", reason="no mcap: run `make test`")
pytest.importorskip("rosbags", reason="no rosbags: run `make test`")

from logs.recorded import (
    START,
    InterfaceState,
    JointState,
    Odometry,
    Sent,
    synthetic_mcap,
    write_mcap,
)
from logs.states import moving

import dyn_ros
from dyn_ros import logs
from dyn_ros.demo.run import ARM
from dyn_ros.recordings.tables import columns
from dyn_ros.viewer import replay
from dyn_ros.viewer.actor import PageSettings
from dyn_ros.viewer.replay import Replay, open_recording
from dyn_ros.viewer.session import Session

MODEL = dyn_ros.Model.from_urdf_file(ARM)
NAMES = MODEL.joint_names
RATE = 200.0
QUADRUPED = ARM.with_name("quadruped.urdf").read_text()
LIMIT = 300.0  # s: the first start on a machine compiles


class Player:
    """A page with a recording, updated by the test."""

    def __init__(self, path, **options):
        self.recording = open_recording(path, **options)
        self.replay = Replay(self.recording)
        self.session = Session(
            "127.0.0.1", 0, self.replay, PageSettings(can_push=False, curves=replay.CURVES)
        )
        self.replay.show(self.session, self.recording.xml)
        self.session.server.get_clients = lambda: {0: None}  # somebody watches
        self.note = ""
        bar = self.replay._bar
        show = bar.show
        bar.show = lambda *arguments: (setattr(self, "note", arguments[2]), show(*arguments))
        self.do("play", False)
        self.seek(0.0)

    def close(self):
        self.replay.close()
        self.session.close()

    def do(self, action, value):
        """Act as a user does."""
        self.replay._bar.events.put((action, value))
        self.update(0.0)

    def update(self, seconds=0.05):
        self.replay.update(self.session, seconds)
        self.session.update(time.monotonic(), seconds)

    def until(self, ready):
        end = time.monotonic() + LIMIT
        while not ready():
            assert time.monotonic() < end, self.note
            self.update(0.0)
            time.sleep(0.01)

    def part(self):
        return self.replay._loader.get(self.replay._part_number(self.replay._now))

    def seek(self, seconds):
        self.do("seek", seconds)
        self.until(lambda: self.part() is not None and "gravity" in self.part().torques)
        self.update(0.0)

    @property
    def time(self):
        return 1e-9 * (self.replay._now - self.replay._start)

    @property
    def q(self):
        return self.session._q

    def latest(self):
        """The latest sample of the plots, by curve."""
        return dict(zip(replay.CURVES, self.replay._history().present))


@pytest.fixture
def play(monkeypatch):
    players = []

    def start(*args, **options):
        players.append(Player(*args, **options))
        return players[-1]

    yield start
    for player in players:
        player.close()


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    """100 s of the arm, in many parts."""
    return synthetic_mcap(
        tmp_path_factory.mktemp("arm") / "arm.mcap",
        MODEL,
        20000,
        RATE,
        rows=100,
        description=ARM.read_text(),
    )


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(replay, "PART_SIZE", 1e5)


def messages(rows, period=10_000_000, child="trunk", names=None):
    """Joint states of the quadruped, and its odometry."""
    model = dyn_ros.Model.from_urdf(QUADRUPED)
    names = names or model.joint_names
    for row in rows:
        stamp = START + row * period
        pose = (0.01 * row, 0.0, 0.4, 0.0, 0.0, 0.0, 1.0)
        yield Sent("/odom", stamp, Odometry(pose, (0.0,) * 6, stamp, child=child))
        yield Sent(
            "/joint_states",
            stamp + 1000,
            JointState(
                names,
                np.full(len(names), 1e-3 * row),
                np.zeros(len(names)),
                np.ones(len(names)),
                stamp,
            ),
        )


def test_any_time_of_it_is_shown(play, arm, small_parts):
    player, recording = play(arm), logs.read(arm)
    assert len(player.recording.parts) > 5
    for seconds in (1.0, 95.0, 15.0, 55.0, 12.345):
        player.seek(seconds)
        row = (
            np.searchsorted(recording.stamp + 200_000, START + round(1e9 * seconds), side="right")
            - 1
        )
        np.testing.assert_allclose(player.q, recording.q[row], atol=1e-12)
        torques, g = (
            player.latest(),
            dyn_ros.generalized_gravity(MODEL, dyn_ros.Data(MODEL), recording.q[row]),
        )
        np.testing.assert_allclose(torques["gravity"], g, atol=1e-10)
        np.testing.assert_allclose(torques["effort"], recording.effort[row], atol=1e-12)
    assert len(player.replay._loader._parts) <= replay.MAX_LOADED_PARTS + 2


def test_residuals_are_those_of_the_log_command(play, arm, small_parts):
    from dyn_ros.logs.quantities import QuantitySettings, compute_quantities
    from dyn_ros.recordings.options import ReadOptions
    from dyn_ros.recordings.part import read_part
    from dyn_ros.recordings.plan import divide_part
    from dyn_ros.recordings.selection import select_part

    player = play(arm)
    chosen = select_part(replay.open_source(arm), ReadOptions(player.recording.model))
    (whole,) = divide_part(chosen, np.inf)
    part = read_part(whole)
    table = compute_quantities(
        player.recording.model, part.states, 0, replay.QUANTITIES, QuantitySettings()
    )
    for seconds in (2.0, 75.0):
        player.seek(seconds)
        _, row, _ = player.replay._find_state(player.replay._now)
        at = np.searchsorted(part.states.log_time, player.part().log_time[row])
        for name in ("residual", "external"):
            expected = [table.columns[f"{name}.{joint}"][at] for joint in NAMES]
            np.testing.assert_allclose(player.latest()[name], expected, atol=1e-5)


def test_the_whole_recording_is_plotted(play, arm, small_parts):
    player, recording = play(arm), logs.read(arm)
    player.seek(10.0)
    assert player.replay._history().cursor is None
    player.do("plot all", True)
    loader = player.replay._loader
    player.until(lambda: loader.overview.fraction == 1.0)
    assert len(loader._parts) <= replay.MAX_LOADED_PARTS + 2
    history = player.replay._history()
    assert history.span == (0.0, pytest.approx(100.0, abs=0.01)) and history.title.startswith("all")
    assert history.cursor == pytest.approx(10.0, abs=1e-6)
    efforts = history.torques[:, replay.CURVES.index("effort")]
    limits = np.fmax(np.fmax.reduce(recording.effort), -np.fmin.reduce(recording.effort))
    for least, row in zip((np.fmin, np.fmax), (recording.effort.min(0), recording.effort.max(0))):
        np.testing.assert_allclose(least.reduce(efforts), row, atol=1e-12 * limits.max())
    assert not np.isnan(history.torques[:, replay.CURVES.index("gravity")]).any()
    assert history.times[0] < 0.1 and history.times[-1] > 99.9
    assert player.replay._history().torques is history.torques  # nothing is sent again
    player.session.server.on_seek(0.25)
    player.update(0.0)
    assert player.time == pytest.approx(25.0, abs=0.1)
    player.do("plot all", False)
    assert player.replay._history().cursor is None


def test_it_plays_at_a_speed_to_the_end(play, arm):
    player = play(arm)
    player.do("play", True)
    player.update(0.5)
    assert player.time == pytest.approx(0.5, abs=1e-6)
    player.do("speed", 10.0)
    player.update(0.5)
    assert player.time == pytest.approx(5.5, abs=1e-6)
    player.do("speed", 0.1)
    player.update(1.0)
    assert player.time == pytest.approx(5.6, abs=1e-6)
    player.seek(99.9)
    player.do("speed", 1.0)
    player.update(1.0)
    assert player.note == "end of the recording"
    assert player.time == pytest.approx(99.9952, abs=1e-6)
    player.update(1.0)
    assert not player.replay._plays
    player.do("play", True)  # from the start
    player.update(0.0)
    assert player.time < 0.1 and player.replay._plays


def test_it_waits_while_nobody_watches(play, arm):
    player = play(arm)
    player.session.server.get_clients = dict
    player.do("play", True)
    player.update(0.5)
    assert player.time == 0.0


def test_steps(play, arm, small_parts):
    player = play(arm)
    player.seek(1.001)
    player.do("step", 0)  # to the time of the state itself
    before = player.time
    player.do("step", 1)
    assert player.time - before == pytest.approx(1 / RATE, abs=1e-6)
    player.do("step", -1)
    player.do("step", -1)
    assert player.time - before == pytest.approx(-1 / RATE, abs=1e-6)
    start = 1e-9 * (player.replay._part_starts[1] - player.replay._start)
    player.seek(start)  # the first state of a part
    player.until(lambda: player.replay._loader.get(0) is not None)
    player.do("step", -1)
    assert start - player.time == pytest.approx(1 / RATE, abs=1e-4)
    player.do("step", 1)
    assert player.time == pytest.approx(start, abs=1e-4)
    player.seek(0.0)
    player.do("step", -1)  # there is none
    assert player.time == 0.0
    player.do("step", 1)  # the first one, after the description
    assert player.time == pytest.approx(2e-4)


def test_odometry_moves_the_root(play, tmp_path):
    path = write_mcap(tmp_path / "walk.mcap", messages(range(300)))
    player = play(path, xml=QUADRUPED)
    for row in (10, 250):
        player.seek(1e-2 * row + 1e-3)
        assert player.session.robot._root.position[0] == pytest.approx(0.01 * row)
        assert player.q[0] == pytest.approx(1e-3 * row)
    fixed = play(path, xml=QUADRUPED, root_joint="fixed")
    fixed.seek(2.5)
    assert fixed.session.robot._root.position[0] == 0.0


def test_a_gap(play, tmp_path):
    rows = [*range(100), *range(400, 500)]
    player = play(write_mcap(tmp_path / "gap.mcap", messages(rows)), xml=QUADRUPED)
    player.seek(2.0)
    assert player.note == "no states for 1.0 s"
    ((start, stop),) = player.replay._loader.gaps
    first, last = player.replay._start, player.replay._end
    assert stop - start == pytest.approx(3.01e9, abs=1e7)
    start_percent, width_percent = (
        100.0 * time / (last - first) for time in (start - first, stop - start)
    )
    assert (
        f"left:{start_percent:.2f}%;width:{width_percent:.2f}%" in player.replay._bar._text.content
    )
    assert np.isnan(player.latest()["effort"]).all()
    assert player.q[0] == pytest.approx(1e-3 * 99)
    player.seek(4.5)
    assert player.note == "" and np.isfinite(player.latest()["effort"]).all()


def test_what_is_wrong_is_shown(play, tmp_path):
    names = [*dyn_ros.Model.from_urdf(QUADRUPED).joint_names, "tail"]
    player = play(write_mcap(tmp_path / "a.mcap", messages(range(100), names=names)), xml=QUADRUPED)
    assert any("tail" in text for text in player.session._problems.recent([], 0.0))
    player = play(
        write_mcap(tmp_path / "b.mcap", messages(range(100), child="base")), xml=QUADRUPED
    )
    player.seek(0.5)
    assert "no states here" in player.note and "root_joint" in player.note


def test_a_table(play, tmp_path):
    recording = tmp_path / "table.csv"
    columns = ["time", *(f"position.{name}" for name in NAMES)]
    lines = [",".join(columns)] + [
        ",".join(map(str, [0.01 * row, *[0.001 * row] * 7])) for row in range(300)
    ]
    recording.write_text("\n".join(lines) + "\n")
    player = play(recording, xml=ARM.read_text())
    player.seek(2.0)
    np.testing.assert_allclose(player.q, 0.2, atol=0.002)
    assert np.isfinite(player.latest()["gravity"]).all()
    assert np.isnan(player.latest()["nle"]).all()  # no velocities
    assert np.isnan(player.latest()["effort"]).all()
    assert "the time has no date" in player.replay._bar._text.content


def test_keys_play_and_step(play, arm):
    player = play(arm)
    commands = player.session.server.gui._command_handle_from_uuid.values()
    keys = {command.hotkey: command for command in commands}
    assert keys.keys() >= {"space", "arrowleft", "arrowright"}
    for key, event in (
        ("space", ("play", True)),
        ("arrowleft", ("step", -1)),
        ("arrowright", ("step", 1)),
    ):
        for callback in keys[key]._impl.trigger_cb:
            callback(None)
        assert player.replay._bar.events.get(timeout=10.0) == event


def test_drives_of_a_recording(play, tmp_path):
    states = moving(MODEL, seconds=1.0, rate=100.0)
    recording, robot = tmp_path / "table.csv", dyn_ros.Model.from_urdf_file(ARM)
    rows = {"time": 1e-9 * (states.stamp - states.stamp[0])}
    for signal, values in (
        ("position", states.q),
        ("velocity", states.v),
        ("effort", states.tau / -8.0),
    ):
        rows |= {f"{signal}.{name}": values[:, k] for k, name in enumerate(NAMES)}
    columns.write_columns(recording, rows)
    robot.drives = dyn_ros.Drives.of(7, gain=-8.0)
    dyn_ros.save_drives(robot, tmp_path / "drives.yaml")
    player = play(recording, xml=ARM.read_text(), drives=tmp_path / "drives.yaml")
    player.seek(0.5)
    k = int(np.argmin(np.abs(states.q - player.q).max(axis=1)))
    np.testing.assert_allclose(player.latest()["effort"], states.tau[k], atol=1e-9)


def load_first_part(path):
    """Return the first part of a recording of the arm."""
    loader = replay.Loader(open_recording(path, ARM.read_text()))
    loader.request([0])
    end = time.monotonic() + LIMIT
    while loader.get(0) is None:
        assert time.monotonic() < end
        time.sleep(0.01)
    loader.close()
    return loader.get(0)


def test_a_joint_that_is_never_reported(tmp_path):
    path = write_mcap(
        tmp_path / "some.mcap",
        [
            Sent("/joint_states", START + k, JointState(NAMES[:3], [0.0] * 3, stamp=START + k))
            for k in range(0, 10**9, 10**7)
        ],
    )
    assert any("elbow_pitch" in problem for problem in load_first_part(path).problems)


def test_currents_without_a_gain_are_unknown_and_named(tmp_path):
    entries = {name: {"position": 0.1, "current": 2.0} for name in NAMES}
    entries[NAMES[0]] = {"position": 0.1, "torque": 2.0}
    path = write_mcap(
        tmp_path / "currents.mcap",
        [
            Sent("/dynamic_joint_states", START + k, InterfaceState(entries, START + k))
            for k in range(0, 10**9, 10**7)
        ],
    )
    part = load_first_part(path)
    assert (part.torques["effort"][:, 0] == 2.0).all()
    assert np.isnan(part.torques["effort"][:, 1:]).all()
    assert [problem.partition(",")[0] for problem in part.problems] == [
        f"joint '{name}': its effort is the interface current" for name in NAMES[1:]
    ]


@pytest.mark.parametrize(
    "sent, xml, word",
    [
        (
            [Sent("/joint_states", START, JointState(NAMES, [0.0] * 7, stamp=START))],
            None,
            "no robot description; pass robot=",
        ),
        ([Sent("/robot_description", START, ARM.read_text())], None, "no readable topic named"),
        (
            [Sent("/joint_states", START, JointState(["a"], [0.0], stamp=START))],
            ARM.read_text(),
            "no joint of the robot",
        ),
        ([], ARM.read_text(), "joint_states"),
    ],
)
def test_recordings_that_cannot_be_shown(tmp_path, sent, xml, word):
    path = write_mcap(tmp_path / "bad.mcap", sent)
    with pytest.raises(ValueError, match=word):
        open_recording(path, xml)
