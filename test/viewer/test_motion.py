# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The motion of simulated robots: limits, start at rest, derivatives and required torques."""

import numpy as np
import pytest

import dyn_ros
from dyn_ros.demo.run import ARM
from dyn_ros.engine.model.urdf import read_urdf
from dyn_ros.viewer.motion import HOLD_TIME, ResumedMotion, SineMotion, Steering
from dyn_ros.viewer.simulation import CompliantRobot

MIXED = """<robot name="mixed">
  <link name="base"/>
  <joint name="turn" type="continuous"><parent link="base"/><child link="a"/></joint>
  <link name="a"/>
  <joint name="slide" type="prismatic"><parent link="a"/><child link="b"/>
    <limit lower="0.2" upper="0.3" effort="1" velocity="0.01"/></joint>
  <link name="b"/>
  <joint name="finger" type="revolute"><parent link="b"/><child link="c"/>
    <limit lower="-1" upper="1" effort="1" velocity="1"/><mimic joint="turn"/></joint>
  <link name="c"/>
  <joint name="stuck" type="revolute"><parent link="c"/><child link="d"/>
    <limit lower="0.5" upper="0.5" effort="1" velocity="1"/></joint>
  <link name="d"/>
</robot>"""
MASSIVE = MIXED.replace(
    "/>\n  <joint",
    """><inertial><origin xyz="0.1 0.2 0.3"/><mass value="2"/>
  <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>\n  <joint""",
)
TIMES = np.linspace(0.0, 60.0, 6001)


@pytest.fixture(params=[ARM.read_text(), MIXED], ids=["arm7", "mixed"])
def tree(request):
    return read_urdf(request.param)


def moving(tree):
    return [joint for joint in tree.joints if joint.mimic is None]


def test_stays_within_the_limits(tree):
    position, velocity, _ = (
        np.array(values) for values in zip(*map(SineMotion(tree).state_at, TIMES))
    )
    for i, joint in enumerate(moving(tree)):
        assert np.all(position[:, i] >= joint.lower) and np.all(position[:, i] <= joint.upper)
        assert np.all(np.abs(velocity[:, i]) <= joint.velocity)


@pytest.mark.parametrize("resumed", [False, True], ids=["motion", "resumed"])
def test_velocity_and_acceleration_are_the_derivatives(tree, resumed):
    motion, step = SineMotion(tree), 1e-5
    if resumed:
        motion = ResumedMotion(motion, np.linspace(-1.0, 1.0, len(motion.names)))
    for time in (0.0, 0.3, 2.0, 17.0):
        before, after = motion.state_at(time - step), motion.state_at(time + step)
        for order in (1, 2):
            difference = (after[order - 1] - before[order - 1]) / (2 * step)
            np.testing.assert_allclose(motion.state_at(time)[order], difference, atol=1e-8)


@pytest.mark.parametrize("xml", [ARM.read_text(), MASSIVE], ids=["arm7", "mixed"])
def test_effort_brings_the_energy(xml):
    """Its power is the rate of the mechanical energy; a mimic joint's is its master's."""
    model = dyn_ros.Model.from_urdf(xml)
    motion, data, step = SineMotion(model.tree), dyn_ros.Data(model), 1e-3
    robot = CompliantRobot(model, motion)

    def energy(time):
        q, v, _ = motion.state_at(time)
        return dyn_ros.mechanical_energy(model, data, q, v)

    for time in (0.7, 3.0, 17.0):
        rate = (
            8.0 * (energy(time + step) - energy(time - step))
            - (energy(time + 2 * step) - energy(time - 2 * step))
        ) / (12.0 * step)
        state = motion.state_at(time)
        effort = robot._feedforward(*state) - model.damping * state[1]
        assert effort @ state[1] == pytest.approx(rate, rel=1e-8)


def test_starts_at_rest_and_then_moves(tree):
    motion = SineMotion(tree)
    assert np.all(motion.state_at(0.0)[1] == 0.0)
    travel = np.ptp([motion.state_at(time)[0] for time in TIMES], axis=0)
    for joint, distance in zip(moving(tree), travel):
        assert distance > 0.01 or joint.lower == joint.upper


def test_moves_independent_joints_only():
    assert SineMotion(read_urdf(MIXED)).names == ["turn", "slide", "stuck"]
    floating = read_urdf(MIXED, root_joint="floating")
    assert SineMotion(floating).names == ["turn", "slide", "stuck"]


def test_it_is_held_and_continues_where_it_was(tree):
    """Smoothly: velocity and acceleration are the derivatives all the time."""
    steering, step = Steering(SineMotion(tree)), 1e-5
    steering.advance(3.0)
    for holds in (True, False):
        steering.hold(holds)
        for _ in range(10):
            before, now, after = (steering.advance(step) for _ in range(3))
            for order in (1, 2):
                difference = (after[order - 1] - before[order - 1]) / (2.0 * step)
                np.testing.assert_allclose(now[order], difference, atol=1e-4)
            steering.advance(HOLD_TIME)
        assert (abs(now[1]).max() < 1e-3) == holds
        steering.advance(5.0 * HOLD_TIME)
        there = steering.advance(20.0 * HOLD_TIME)[0]
        assert (abs(steering.advance(1.0)[0] - there).max() < 1e-6) == holds


def test_a_held_robot_can_be_steered(tree):
    steering = Steering(SineMotion(tree))
    steering.advance(3.0)
    steering.hold(True)
    position, velocity, _ = steering.advance(0.5 * HOLD_TIME)
    steering.play(False)
    np.testing.assert_allclose(steering.advance(1e-6)[0], position + 1e-6 * velocity, atol=1e-9)
    steering.command(position + 0.1)
    np.testing.assert_allclose(steering.advance(3.0)[0], position + 0.1, atol=1e-6)
