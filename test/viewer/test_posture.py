# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Around which posture robots move: arms stay above their base, legged robots stand."""

import numpy as np
import pytest

from dyn_ros.demo.run import ARM
from dyn_ros.engine.model.urdf import read_urdf
from dyn_ros.viewer.motion import SineMotion
from dyn_ros.viewer.posture import CENTER_COUNT, MOTION_PERIOD, Swing, _joint_sine, find_legs
from dyn_ros.viewer.scene.tree_kinematics import TreeKinematics
from peer import EXAMPLE_ROBOTS, FILES

QUADRUPED = ARM.with_name("quadruped.urdf")
TIMES = np.linspace(0.0, 60.0, 600)
PENDULUM = """<robot name="pendulum"><link name="ceiling"/><link name="rod"/><link name="ball"/>
  <joint name="swing" type="continuous"><parent link="ceiling"/><child link="rod"/>
    <axis xyz="0 1 0"/></joint>
  <joint name="end" type="fixed"><parent link="rod"/><child link="ball"/>
    <origin xyz="0 0 -1"/></joint></robot>"""


def example(name):
    return read_urdf((EXAMPLE_ROBOTS / FILES[name]).read_text())


def heights(tree, motion):
    """Return the height of the lowest point that each joint moves, (joints, k)."""
    return TreeKinematics(tree).heights(np.array([motion.state_at(time)[0] for time in TIMES]))[:-1]


def default(tree):
    """The motion about the middle of the limits."""
    joints = TreeKinematics(tree).joints
    return Swing(*np.array([_joint_sine(joint, i) for i, joint in enumerate(joints)]).T)


@pytest.mark.parametrize("name", ["ur5", "panda", "tiago"])
def test_an_arm_stays_above_the_plane_of_its_base(name):
    tree = example(name)
    motion = SineMotion(tree)
    assert heights(tree, motion).min() > 0.0 and not motion.stands
    assert motion.swing.amplitude.max() > 0.5


def test_only_what_has_to_be_is_changed():
    """The shoulder of an arm whose middle is horizontal is raised, nothing else."""
    tree = example("ur5")
    old, new = default(tree), SineMotion(tree).swing
    assert TreeKinematics(tree).heights(old.positions_at(TIMES))[:-1].min() < -0.5
    changed = np.flatnonzero(old.center != new.center)
    assert [TreeKinematics(tree).names[slot] for slot in changed] == ["shoulder_lift_joint"]
    tiago = example("tiago")
    np.testing.assert_array_equal(SineMotion(tiago).swing, default(tiago))


def test_a_motion_repeats():
    """Its extremes would otherwise come after hours, outside the picture and below the floor."""
    for tree in (read_urdf(ARM.read_text()), read_urdf(QUADRUPED.read_text()), example("panda")):
        swing = SineMotion(tree).swing
        np.testing.assert_allclose(
            swing.positions_at(TIMES + 100.0 * MOTION_PERIOD), swing.positions_at(TIMES), atol=1e-9
        )


def test_what_hangs_keeps_hanging():
    tree = read_urdf(PENDULUM)
    np.testing.assert_array_equal(SineMotion(tree).swing, default(tree))
    assert CENTER_COUNT > 1 and heights(tree, SineMotion(tree)).max() < 0.0


@pytest.mark.parametrize(
    "name, count",
    [
        ("solo12", 4),
        ("talos_reduced", 2),
        ("quadruped", 4),
        ("go2", 4),
        ("bolt", 2),
        ("anymal_c", 4),
    ],
)
def test_legs_bend_together_and_the_feet_stay_level(name, count):
    """Also knees that cannot be stretched, which bend the way they can."""
    tree = read_urdf(QUADRUPED.read_text()) if name == "quadruped" else example(name)
    robot, motion = TreeKinematics(tree), SineMotion(tree)
    legs = find_legs(robot)
    assert motion.stands and len(legs) == count
    feet = heights(tree, motion)[[robot.tree_indices[leg[-1]] for leg in legs]]
    np.testing.assert_allclose(feet - feet[0], 0.0, atol=1e-3)
    length = -feet.min()
    assert 0.05 * length < np.ptp(feet[0]) < 0.3 * length  # it crouches
    assert heights(tree, motion).min() > feet.min() - 0.02 * length
    for slot, joint in enumerate(robot.joints):
        swing = motion.swing
        assert joint.lower <= swing.center[slot] - abs(swing.amplitude[slot]) + 1e-12
        assert joint.upper >= swing.center[slot] + abs(swing.amplitude[slot]) - 1e-12


def test_legs_with_wheels_above_their_points_of_contact():
    tree = example("centauro")
    robot, motion = TreeKinematics(tree), SineMotion(tree)
    legs = find_legs(robot)
    moved = heights(tree, motion)
    contacts = np.array(
        [moved[[robot.tree_indices[slot] for slot in leg]].min(axis=0) for leg in legs]
    )
    assert motion.stands and len(legs) == 4
    np.testing.assert_allclose(contacts - contacts[0], 0.0, atol=1e-3)
    assert np.ptp(contacts[0]) > 0.05 and moved.min() == contacts.min()


@pytest.mark.parametrize("name", ["ur5", "panda", "tiago"])
def test_arms_and_wheels_are_no_legs(name):
    assert find_legs(TreeKinematics(example(name))) == []


def test_arms_below_a_common_spine_are_no_legs():
    """They hang on the same level, but share a joint."""
    chains = "".join(
        f"""<link name="{side}1"/><link name="{side}2"/>
      <joint name="{side}_shoulder" type="revolute"><parent link="chest"/><child link="{side}1"/>
        <origin xyz="0 {y} 0.2"/><axis xyz="0 1 0"/>
        <limit lower="-1" upper="1" effort="9" velocity="9"/></joint>
      <joint name="{side}_elbow" type="revolute"><parent link="{side}1"/><child link="{side}2"/>
        <origin xyz="0 0 -0.4"/><axis xyz="0 1 0"/>
        <limit lower="-1" upper="1" effort="9" velocity="9"/></joint>"""
        for side, y in (("left", 0.2), ("right", -0.2))
    )
    spine = """<joint name="spine" type="{}"><parent link="base"/><child link="chest"/>
      <limit lower="-1" upper="1" effort="9" velocity="9"/></joint>"""
    robots = [
        TreeKinematics(
            read_urdf(f"""<robot name="torso"><link name="base"/><link name="chest"/>
      {spine.format(kind)}{chains}</robot>""")
        )
        for kind in ("revolute", "fixed")
    ]
    assert [len(find_legs(robot)) for robot in robots] == [0, 2]
