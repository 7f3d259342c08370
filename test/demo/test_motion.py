"""The demo's motion: within every limit, from rest, its velocity the exact derivative."""
import numpy as np
import pytest

from dyn_ros.demo.motion import Motion
from dyn_ros.demo.run import ARM
from dyn_ros.model.urdf import read_urdf

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
TIMES = np.linspace(0.0, 60.0, 6001)


@pytest.fixture(params=[ARM.read_text(), MIXED], ids=["arm7", "mixed"])
def joints(request):
    return read_urdf(request.param).joints


def moving(joints):
    return [joint for joint in joints if joint.mimic is None]


def test_stays_within_the_limits(joints):
    position, velocity = (np.array(values) for values in zip(*map(Motion(joints).at, TIMES)))
    for i, joint in enumerate(moving(joints)):
        assert np.all(position[:, i] >= joint.lower) and np.all(position[:, i] <= joint.upper)
        assert np.all(np.abs(velocity[:, i]) <= joint.velocity)


def test_velocity_is_the_derivative(joints):
    motion, step = Motion(joints), 1e-5
    for time in (0.0, 0.3, 2.0, 17.0):
        difference = (motion.at(time + step)[0] - motion.at(time - step)[0]) / (2 * step)
        np.testing.assert_allclose(motion.at(time)[1], difference, atol=1e-9)


def test_starts_at_rest_and_then_moves(joints):
    motion = Motion(joints)
    assert np.all(motion.at(0.0)[1] == 0.0)
    travel = np.ptp([motion.at(time)[0] for time in TIMES], axis=0)
    for joint, distance in zip(moving(joints), travel):
        assert distance > 0.01 or joint.lower == joint.upper


def test_moves_independent_joints_only():
    assert Motion(read_urdf(MIXED).joints).names == ["turn", "slide", "stuck"]
    floating = read_urdf(MIXED, root_joint="floating").joints
    assert Motion(floating).names == ["turn", "slide", "stuck"]
