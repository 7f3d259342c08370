# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot of `dyn_ros view`, which is simulated in the process of its page; without a browser."""

import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("viser", reason="no viser: pip install viser")

from pulling import pull

import dyn_ros
from dyn_ros.demo.run import ARM
from dyn_ros.viewer import local, session
from dyn_ros.viewer.actor import PageSettings
from dyn_ros.viewer.local import LocalRobot
from dyn_ros.viewer.session import Session
from dyn_ros.viewer.touch_tab import MAX_PAYLOAD
from peer import EXAMPLE_ROBOTS, FILES

PERIOD = 1 / 30
QUADRUPED = ARM.with_name("quadruped.urdf")


class Page:
    """A page with a local robot, updated by the test."""

    def __init__(self, path=ARM, root_joint=None):
        xml = path.read_text()
        self.model = dyn_ros.Model.from_urdf(xml, root_joint)
        self.robot = LocalRobot(self.model)
        self.session = Session(
            "127.0.0.1",
            0,
            self.robot,
            PageSettings(has_motion=True, can_hang=True, curves=local.CURVES),
        )
        self.robot.show(self.session, xml)
        self.now = time.monotonic()

    def close(self):
        self.session.close()

    def advance(self, seconds=PERIOD):
        for _ in range(max(1, round(seconds / PERIOD))):
            self.now += PERIOD
            self.robot.update(self.session, PERIOD)
            self.session.update(self.now, PERIOD)

    def start(self):
        self.robot._start_thread.join(300.0)
        self.advance()
        return self

    def slide(self, slot, position):
        self.session.panel.events.put(("slide", slot, position))

    def torques(self, curve):
        return self.session._torques[curve]

    @property
    def q(self):
        """Positions in the order of the model, with the base at rest."""
        q = self.model.neutral()
        for name, x in zip(self.session.robot.names, self.session._q):
            q[self.model.idx_q[self.model.joint_index(name)]] = x
        return q

    def rows(self):
        return [self.model.idx_v[self.model.joint_index(name)] for name in self.session.robot.names]


@pytest.fixture
def show(monkeypatch):
    pages = []

    def start(*args, **options):
        page = Page(*args, **options)
        pages.append(page)
        monkeypatch.setattr(session, "time", SimpleNamespace(monotonic=lambda: page.now))
        return page

    yield start
    for page in pages:
        page.close()


def compiling(monkeypatch, count):
    """The first of some functions is compiled; the others are, once the event is set."""
    compiled = threading.Event()

    def precompile(names, progress, **options):
        progress(1, count, "rnea")
        compiled.wait(60.0)
        progress(count, count, "")

    monkeypatch.setattr(dyn_ros, "precompile", precompile)
    return compiled


def test_it_moves_before_the_engine_is_compiled(show, monkeypatch):
    compiled = compiling(monkeypatch, 3)
    page = show()
    page.advance(2.0)
    assert "compiling the torques, 1 of 3" in page.session.panel._status.content
    there = page.session._q.copy()
    page.advance(0.5)
    assert abs(page.session._q - there).max() > 1e-3
    assert np.isnan(page.torques("gravity")).all()
    page.slide(1, 0.5)
    page.advance(3.0)
    assert page.session._q[1] == pytest.approx(0.5, abs=1e-3)
    compiled.set()
    page.start()
    assert page.session._q[1] == pytest.approx(0.5, abs=0.02)  # it does not jump
    assert np.isfinite(page.torques("gravity")).all()


@pytest.mark.parametrize("root_joint", [None, "floating"])
def test_torques_are_those_of_the_state(show, root_joint):
    page = show(root_joint=root_joint).start()
    page.slide(1, 0.7)
    page.advance(4.0)
    g = dyn_ros.generalized_gravity(page.model, dyn_ros.Data(page.model), page.q)[page.rows()]
    np.testing.assert_allclose(page.torques("gravity"), g, atol=1e-9)
    np.testing.assert_allclose(page.torques("nle"), g, atol=1e-3)  # at rest
    np.testing.assert_allclose(page.torques("effort"), g, atol=0.05)
    np.testing.assert_array_equal(page.torques("push"), np.zeros(7))


def test_a_push_moves_it_and_shows_the_torques_that_it_causes(show):
    page = show().start()
    page.session.panel.events.put(("pause",))
    page.advance(2.0)
    there = page.session._q.copy()
    force = np.array([20.0, 0.0, 0.0])
    page.session._stop_pushing()  # the test pushes instead of the handle
    page.robot.push("tool", force)
    page.advance(2.0)
    assert abs(page.session._q - there).max() > 0.005
    J = dyn_ros.frame_jacobian(
        page.model, dyn_ros.Data(page.model), page.q, "tool", dyn_ros.ReferenceFrame.LOCAL
    )
    np.testing.assert_allclose(page.torques("push"), J[:3].T @ force, atol=1e-9)
    # the motors hold the robot against both
    np.testing.assert_allclose(
        page.torques("effort"), page.torques("gravity") - page.torques("push"), atol=0.1
    )
    page.robot.push("tool", np.zeros(3))
    page.advance(3.0)
    np.testing.assert_allclose(page.session._q, there, atol=1e-3)


def test_a_payload_is_carried(show):
    page = show().start()
    page.slide(1, 0.7)
    page.advance(4.0)
    before = page.torques("effort").copy()
    changes = []
    for mass in (0.5, 1.0):
        page.session.panel.events.put(("hang", mass))
        page.advance(3.0)
        changes.append(page.torques("effort") - before)
    assert abs(changes[0]).max() > 1.0
    # the motors sag further, and the larger ball is farther from the tip
    np.testing.assert_allclose(changes[1], 2.0 * changes[0], atol=0.1 * abs(changes[1]).max())
    page.session.panel.events.put(("hang", 0.0))
    page.advance(3.0)
    np.testing.assert_allclose(page.torques("effort"), before, atol=0.05)


def test_a_typed_mass_is_limited(show):
    page, hung = show(), []
    page.robot.hang = lambda link, body: hung.append(body)
    slider = page.session.touch._mass
    for value, mass in ((1000.0, MAX_PAYLOAD), (0.3, 0.3)):
        slider.value = value
        deadline = time.monotonic() + 10.0
        while (not hung or hung[-1].mass != mass) and time.monotonic() < deadline:
            page.advance()
            time.sleep(0.01)
        assert hung[-1].mass == slider.value == mass
    slider.value = 0.0
    while hung[-1] is not None and time.monotonic() < deadline:
        page.advance()
        time.sleep(0.01)
    assert hung[-1] is None


def test_a_click_at_a_link_moves_the_ball_there(show):
    page = show().start()
    page.session.server.on_click(np.array([3.0, 0.0, 0.05]), np.array([-1.0, 0.0, 0.0]))
    deadline = time.monotonic() + 10.0
    while page.session._handle.link != "base_link" and time.monotonic() < deadline:
        page.advance()
        time.sleep(0.01)
    assert page.session._handle.link == page.session.panel.pushed_link == "base_link"
    assert "base_link: the root link" in page.session.panel._selection.content
    page.session.server.on_click(np.array([3.0, 0.0, 0.05]), np.array([1.0, 0.0, 0.0]))
    page.advance()
    assert page.session._handle.link == "base_link"  # nothing is there


@pytest.mark.parametrize(
    "file, root_joint, remark",
    [
        (ARM, None, ""),
        (ARM, "floating", "; the base is held; it does not fall"),
        (QUADRUPED, "floating", "; the base is held, with the lowest foot on the floor"),
        (QUADRUPED, None, "; the base is held, with the lowest foot on the floor"),
    ],
)
def test_the_status_says_how_the_base_is_held(show, file, root_joint, remark):
    page = show(file, root_joint).start()
    page.advance(1.5)
    assert f"receiving joint states{remark}</div>" in page.session.panel._status.content


def test_its_markers_are_those_of_the_nodes(show):
    page = show().start()
    assert set(page.session.drawing.families) == {
        ("dynamics/markers", "torque"),
        ("dynamics/markers", "inertia"),
        ("centroidal/markers", "com"),
    }


def test_the_appearance_is_that_of_the_nodes():
    pytest.importorskip("rclpy", reason="no ROS: run `make test`")
    from dyn_ros.nodes.base.marker_output import COMMON_MARKER_SPECS
    from dyn_ros.nodes.markers.centroidal_markers import CENTROIDAL
    from dyn_ros.nodes.markers.dynamics_markers import DYNAMICS
    from dyn_ros.viewer.standalone import COM_DIAMETER, LIMIT_COLOR, PlainAppearance

    values = {spec.name: spec.default for kind in (*DYNAMICS, *CENTROIDAL) for spec in kind.specs}
    assert dict(values, **{spec.name: spec.default for spec in COMMON_MARKER_SPECS})[
        "markers.width"
    ] == (PlainAppearance("com", 1.0).width)
    for family, alpha in (("torque", 1.0), ("inertia", 0.4), ("com", 1.0)):
        np.testing.assert_allclose(
            PlainAppearance(family, 1.0, alpha).color, values[f"markers.{family}.color"], atol=0.005
        )
    assert list(LIMIT_COLOR) == values["markers.torque.full_color"]
    assert values["markers.com.scale"] == COM_DIAMETER


def test_the_page_plays_and_pauses(show):
    page = show().start()
    assert page.session.panel._play.label == "Pause"
    page.slide(0, 0.2)
    page.advance(3.0)
    assert page.session.panel._play.label == "Move by itself"
    assert page.session._q[0] == pytest.approx(0.2, abs=0.01)
    page.session.panel.events.put(("play",))
    page.advance(3.0)
    assert abs(page.session._q[0] - 0.2) > 0.02


def test_it_waits_for_those_who_reach_for_it_or_pull_it(show):
    page = show().start()
    page.advance(2.0)

    def moves():
        there = page.session._q.copy()
        page.advance(1.0)
        return abs(page.session._q - there).max() > 0.01

    reaching, handle = page.session.server.reaching_clients, page.session._handle
    assert moves()
    reaching.add(7)
    page.advance(2.0)
    assert not moves() and "waiting while" in page.session.panel._status.content
    pull(handle, np.array([0.0, 0.0, 0.1]))
    reaching.discard(7)
    page.advance(2.0)
    assert not moves() and abs(page.torques("push")).max() > 0.1
    handle.let_go()
    assert moves() and "waiting while" not in page.session.panel._status.content


@pytest.mark.parametrize("name", ["panda", "ur5", "solo12", "talos_reduced", "tiago"])
def test_other_robots(show, name):
    page = show(EXAMPLE_ROBOTS / FILES[name]).start()
    page.advance(0.5)
    assert np.isfinite(page.torques("nle")).all() and not page.robot._engine_error


def test_a_legged_robot_stands_on_the_floor(show):
    """Its feet touch it while it crouches, and so do markers: they move with the robot."""
    page = show(EXAMPLE_ROBOTS / FILES["solo12"]).start()
    robot, heights = page.session.robot, []
    names = "FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT"
    for _ in range(4):
        page.advance(0.7)
        feet = [robot.placement(foot)[2, 3] for foot in names]
        np.testing.assert_allclose(feet, feet[0], atol=2e-3)
        assert feet[0] == pytest.approx(0.0, abs=2e-3)
        heights.append(robot.placement("base_link")[2, 3])
    markers = page.session.drawing._received.values()
    assert {received.marker.header.frame_id for received in markers} == {"base_link"}
    assert np.ptp(heights) > 0.01 and min(heights) > 0.15
    assert page.session.floor._position[2] == 0.0


def test_the_robot_moves_while_the_thread_that_starts_the_engine_ends(show, monkeypatch):
    report, is_seen = LocalRobot._report, threading.Event()

    def report_slowly(robot, progress):
        report(robot, progress)
        if robot._engine is not None:
            is_seen.wait(60.0)

    monkeypatch.setattr(LocalRobot, "_report", report_slowly)
    page = show()
    while page.robot._engine is None:
        time.sleep(0.01)
    page.advance(1.0)
    is_seen.set()
    page.start()
    assert page.robot._is_simulated


def test_the_floor_is_where_the_motion_is_lowest(show):
    """At the base of an arm that moves above it; lower when a slider moves the arm below it."""
    page = show(EXAMPLE_ROBOTS / FILES["ur5"])
    page.advance(2.0)
    assert abs(page.session.floor._position[2]) < 0.01
    page.slide(1, 0.8)
    page.advance(3.0)
    lowest = page.session.robot.lowest_at(page.session._q)
    assert page.session.floor._position[2] == pytest.approx(lowest, abs=0.02) and lowest < -0.3


def test_plots_say_what_they_wait_for(show, monkeypatch):
    compiled = compiling(monkeypatch, 4)
    page = show()
    monkeypatch.setattr(page.session.server, "get_clients", lambda: {0: None})
    page.advance(2.0)
    note = page.session.panel._narrow_plots._note
    assert "compiling the torques, 1 of 4" in note.content and 'value="0.250"' in note.content
    compiled.set()
    page.start()
    page.advance(0.5)
    assert not note.visible


def test_a_failure_of_the_engine_is_shown_and_the_robot_still_moves(show, monkeypatch):
    def precompile(names, **options):
        raise OSError("no space left on device")

    monkeypatch.setattr(dyn_ros, "precompile", precompile)
    page = show()
    page.robot._start_thread.join(60.0)
    page.advance(2.0)
    assert "no space left on device" in page.session.panel._status.content
    there = page.session._q.copy()
    page.advance(0.5)
    assert abs(page.session._q - there).max() > 1e-3


@pytest.mark.parametrize(
    "joints",
    [
        "",
        """
    <joint name="lift" type="prismatic"><parent link="base"/><child link="top"/>
    <axis xyz="0 0 1"/><limit lower="0" upper="1" effort="100" velocity="1"/></joint>""",
    ],
)
def test_robots_with_few_joints(show, tmp_path, joints):
    path = tmp_path / "few.urdf"
    inertial = """<inertial><mass value="2"/><inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0"
        izz="0.1"/></inertial>"""
    path.write_text(
        f'<robot name="few"><link name="base">{inertial}</link>'
        + (f'<link name="top">{inertial}</link>{joints}' if joints else "")
        + "</robot>"
    )
    page = show(path).start()
    page.advance(1.0)
    assert page.robot._engine_error == "" and "engine" not in page.session.panel._status.content
    if joints:
        assert page.torques("gravity")[0] == pytest.approx(2 * 9.81)
