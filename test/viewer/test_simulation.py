# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The demo's simulated robot: it follows its motion, gives way, obeys dynamics, stays stable."""

import numpy as np
import pytest

import dyn_ros
from dyn_ros.demo.run import ARM
from dyn_ros.viewer.motion import SineMotion, SpringFollower
from dyn_ros.viewer.simulation import FRICTION_VELOCITY, RELATIVE_NOISE, CompliantRobot
from peer import EXAMPLE_ROBOTS, FILES

STEP = 0.002
PUSH = np.array([10.0, -5.0, 3.0, 0.1, 0.2, -0.1])
RUBBING = ARM.read_text().replace(
    '<dynamics damping="0.8"/>', '<dynamics damping="0.8" friction="1.5"/>'
)
POINTS = """<robot name="points"><link name="base"/>
  <joint name="slide" type="prismatic"><parent link="base"/><child link="a"/>
    <limit lower="0" upper="0.1" effort="1" velocity="1"/></joint><link name="a"/>
  <joint name="turn" type="continuous"><parent link="a"/><child link="b"/></joint><link name="b"/>
  <joint name="follower" type="continuous"><parent link="b"/><child link="c"/>
    <mimic joint="turn" multiplier="-2"/></joint><link name="c"/>
</robot>"""


def robot_of(xml):
    model = dyn_ros.Model.from_urdf(xml)
    motion = SineMotion(model.tree)
    return CompliantRobot(model, motion), motion


@pytest.fixture
def arm():
    return robot_of(ARM.read_text())


def torques(robot, wrench, positions=None):
    """J' wrench at the tool, where the robot is or at many positions."""
    q = robot.position if positions is None else np.array(positions)
    J = dyn_ros.frame_jacobian(
        robot.model, dyn_ros.Data(robot.model), q, "tool", dyn_ros.ReferenceFrame.LOCAL
    )
    return np.einsum("...ij,i->...j", J, wrench)


def rest(robot, position, seconds=6.0):
    """Hold a position for a while."""
    zero = np.zeros_like(position)
    for _ in range(round(seconds / STEP)):
        robot.step(STEP, position, zero, zero)


def test_it_follows_its_motion(arm):
    robot, motion = arm
    for k in range(3000):
        desired = motion.state_at((k + 1) * STEP)
        robot.step(STEP, *desired)
        assert abs(robot.position - desired[0]).max() < 1e-3
        assert abs(robot.velocity - desired[1]).max() < 1e-2


@pytest.mark.parametrize("xml", [ARM.read_text(), RUBBING], ids=["viscous", "Coulomb"])
def test_a_short_step_is_forward_dynamics(xml):
    """(v+ - v) / h converges to the acceleration of `aba`, payload and push included."""
    robot, motion = robot_of(xml)
    for k in range(500):
        robot.step(STEP, *motion.state_at((k + 1) * STEP))
    robot.push("tool", PUSH)
    robot.model.set_payload("weight", "tool", 0.5, [0.0, 0.0, 0.03], 1e-4 * np.eye(3))
    desired = motion.state_at(500 * STEP)
    robot.step(1e-9, *desired)
    q, v, tau = robot.position, robot.velocity, robot.effort
    friction = dyn_ros.joint_friction(robot.model, v)
    assert abs(v)[robot.model.friction > 0.0].min(initial=1.0) > FRICTION_VELOCITY
    a = dyn_ros.aba(
        robot.model,
        dyn_ros.Data(robot.model),
        q,
        v,
        tau - friction,
        robot.model.external_forces({"tool": PUSH}),
    )
    robot.step(1e-8, *desired)
    np.testing.assert_allclose((robot.velocity - v) / 1e-8, a, rtol=1e-4, atol=1e-3)


def test_a_push_bends_it_like_springs(arm):
    robot, motion = arm
    home = motion.state_at(0.0)[0]
    robot.push("tool", PUSH)
    rest(robot, home)
    assert abs(robot.velocity).max() < 1e-6
    gravity = [
        dyn_ros.generalized_gravity(robot.model, dyn_ros.Data(robot.model), q).copy()
        for q in (home, robot.position)
    ]
    np.testing.assert_allclose(
        robot.stiffness * (home - robot.position),
        gravity[1] - gravity[0] - torques(robot, PUSH),
        atol=1e-4,
    )
    np.testing.assert_allclose(robot.effort, gravity[1] - torques(robot, PUSH), atol=1e-4)
    robot.push()
    rest(robot, home)
    np.testing.assert_allclose(robot.position, home, atol=1e-6)


def test_a_payload_is_carried_by_the_motors(arm):
    robot, motion = arm
    home = motion.state_at(0.0)[0]
    home[1] += 0.7
    robot.model.set_payload("weight", "tool", 0.5, [0.0, 0.0, 0.03], 1e-4 * np.eye(3))
    rest(robot, home)
    expected = dyn_ros.generalized_gravity(robot.model, dyn_ros.Data(robot.model), robot.position)
    np.testing.assert_allclose(robot.effort, expected, atol=1e-4)
    bare = dyn_ros.Model.from_urdf_file(ARM)
    less = dyn_ros.generalized_gravity(bare, dyn_ros.Data(bare), robot.position)
    assert abs(expected - less).max() > 2.0
    assert 1e-3 < abs(robot.position - home).max() < 0.05
    robot.model.clear_payload()
    rest(robot, home)
    np.testing.assert_allclose(robot.position, home, atol=1e-6)


@pytest.mark.parametrize("xml", [ARM.read_text(), RUBBING], ids=["viscous", "Coulomb"])
def test_an_observer_sees_the_push_in_its_efforts(xml):
    robot, motion = robot_of(xml)
    observer = dyn_ros.MomentumObserver(
        dyn_ros.Model.from_urdf(xml), 300.0, friction_velocity=FRICTION_VELOCITY
    )
    time, step = 0.0, 0.0005
    for push in (np.zeros(6), PUSH):
        robot.push("tool", push)
        positions, estimates = [], []
        for _ in range(4000):
            time += step
            robot.step(step, *motion.state_at(time))
            positions.append(robot.position)
            estimates.append(observer.update(robot.position, robot.velocity, robot.effort, step))
        errors = np.array(estimates) - torques(robot, push, positions)
        assert abs(errors[1000:]).max() < 0.1


def test_noise(arm):
    robot, motion = arm
    samples = np.array([robot.measured_effort() for _ in range(2000)]) - robot.effort
    np.testing.assert_allclose(samples.std(axis=0), robot.noise, rtol=0.1)
    motors = [
        dyn_ros.rnea(robot.model, dyn_ros.Data(robot.model), *motion.state_at(time))
        + dyn_ros.joint_friction(robot.model, motion.state_at(time)[1])
        for time in np.arange(0.0, 60.0, 0.1)
    ]
    np.testing.assert_allclose(
        robot.noise, RELATIVE_NOISE * np.sqrt(np.mean(np.square(motors), axis=0)), rtol=0.2
    )


@pytest.mark.parametrize("step", [STEP, 0.1])
@pytest.mark.parametrize("name", FILES)
def test_any_robot_stays_where_it_can_be(name, step):
    """Pushed and loaded far beyond reason."""
    file = FILES[name]
    xml = (EXAMPLE_ROBOTS / file).read_text()  # an absolute path replaces the folder
    if not SineMotion(dyn_ros.Model.from_urdf(xml).tree).names:
        pytest.skip("no joint moves")
    robot, motion = robot_of(xml)
    links = [frame.name for frame in robot.model.tree.frames if frame.kind == "body"]
    rng = np.random.default_rng(0)
    for k in range(300):
        if k == 50:
            robot.model.set_payload("weight", links[-1], 50.0, [0.3, 0.0, 0.0], 0.1 * np.eye(3))
        if k == 200:
            robot.model.clear_payload()
        if k % 10 == 0:
            robot.push(links[rng.integers(len(links))], 1e4 * rng.standard_normal(6))
        robot.step(step, *motion.state_at((k + 1) * step))
        assert np.isfinite(robot.position).all() and np.isfinite(robot.effort).all()
        assert abs(robot.velocity).max() <= 20.0
    robot.push()
    position, zero = motion.state_at(0.0)[0], np.zeros(len(motion.names))
    for _ in range(3000):
        robot.step(step, position, zero, zero)
    stuck = robot.model.friction[robot._idx_v] / robot.stiffness
    assert np.all(abs(robot.position - position) <= stuck + 1e-3)


def test_massless_links_and_mimic_joints():
    robot, motion = robot_of(POINTS)
    assert motion.names == ["slide", "turn"]
    robot.push("c", [50.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    for k in range(1000):
        robot.step(STEP, *motion.state_at((k + 1) * STEP))
        assert np.isfinite(robot.effort).all() and 0.0 <= robot.position[0] <= 0.1
    assert robot.position[0] == 0.1 and robot.velocity[0] == 0.0


def test_a_push_that_cannot_be_is_refused(arm):
    robot, _ = arm
    for frame, wrench in (("nowhere", PUSH), ("tool", np.full(6, np.nan)), ("tool", [1.0])):
        with pytest.raises(ValueError, match="nowhere|tool"):
            robot.push(frame, wrench)


def test_steering_is_smooth():
    """From a motion to a commanded position: derivatives are right, it stops there."""
    position, velocity = np.array([0.3, -0.2]), np.array([0.5, 0.0])
    follower = SpringFollower(position, velocity)

    def after(seconds):
        follower.step(seconds)
        return follower.position, follower.velocity, follower.acceleration

    for expected, actual in zip((position, velocity), after(0.0)):
        np.testing.assert_array_equal(actual, expected)
    follower.target = np.array([1.0, -0.2])
    first, now, last = (after(seconds) for seconds in (0.2, 1e-4, 1e-4))
    for order in (1, 2):
        np.testing.assert_allclose(
            (last[order - 1] - first[order - 1]) / 2e-4, now[order], atol=1e-5
        )
    np.testing.assert_allclose(after(4.8)[0], [1.0, -0.2], atol=1e-9)
