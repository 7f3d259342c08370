# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Findings about implausible robot descriptions."""
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import peer
from dyn_ros.model.check import check_urdf

BOX = '<visual><geometry><box size="0.2 0.1 0.4"/></geometry></visual>'
SOLID = '<inertia ixx="0.02833" iyy="0.03333" izz="0.00833" ixy="0" ixz="0" iyz="0"/>'
LIMIT = '<limit lower="-1" upper="1" effort="5" velocity="2"/>'


def robot(shape=BOX, mass="2", inertia=SOLID, origin="", limit=LIMIT, kind="revolute"):
    return f"""<robot name="r"><link name="base"/><link name="arm">{shape}
      <inertial>{origin}<mass value="{mass}"/>{inertia}</inertial></link>
      <joint name="j" type="{kind}"><parent link="base"/><child link="arm"/>
      <axis xyz="0 0 1"/>{limit}</joint></robot>"""


def diagonal(*moments):
    return "<inertia " + " ".join(
        f'{key}="{value}"' for key, value in zip(("ixx", "iyy", "izz"), moments)
    ) + ' ixy="0" ixz="0" iyz="0"/>'


def test_a_sound_robot():
    assert check_urdf(robot()) == []
    assert check_urdf(robot(), "floating") == []


@pytest.mark.parametrize("name", ["panda", "ur5", "solo12", "go2", "simple_humanoid"])
def test_well_kept_robots(name):
    assert check_urdf(peer.urdf(name)) == []


@pytest.mark.parametrize("changed, where, what", [
    ({"inertia": diagonal(28333, 33333, 8333)}, "arm", "spreads its mass over"),
    ({"inertia": diagonal(2.8e-8, 3.3e-8, 0.8e-8)}, "arm", "nearly a point"),
    ({"inertia": diagonal(1, 1, 1)}, "arm", "spreads its mass over 0.866 m"),
    ({"inertia": diagonal(0, 0, 0)}, "arm", "no rotational inertia"),
    ({"inertia": diagonal(0.01, 0.01, 0.03)}, "arm", "triangle"),
    ({"inertia": diagonal(0.03, 0.03, -0.001)}, "arm", "positive semidefinite"),
    ({"mass": "0"}, "arm", "no mass"),
    ({"mass": "2000", "inertia": diagonal(28, 33, 8)}, "arm", "2.5e+05 kg/m3"),
    ({"origin": '<origin xyz="0 0 200"/>'}, "arm", "center of mass 200 m outside"),
    ({"shape": "", "inertia": diagonal(28333, 33333, 8333)}, "arm", "spreads its mass over"),
    ({"limit": '<limit lower="0" upper="0" effort="5" velocity="2"/>'}, "j", "cannot move"),
    ({"limit": '<limit lower="-1" upper="1" effort="0" velocity="2"/>'}, "j", "effort limit 0"),
    ({"limit": '<limit lower="0.5" upper="0.5" effort="5" velocity="2"/>'}, "j", "limits are 0.5"),
    ({"limit": '<limit lower="-1" upper="1" effort="-5" velocity="2"/>'}, "j", "effort limit -5"),
    ({"limit": '<limit lower="-1" upper="1" effort="1" velocity="0"/>'}, "j", "velocity limit 0"),
    ({"limit": ""}, "description", "no <limit>"),
])
def test_what_is_doubtful(changed, where, what):
    found = [finding for finding in check_urdf(robot(**changed)) if what in finding.what]
    assert found and where in found[0].where and found[0].advice


def test_the_size_is_that_of_all_shapes_where_they_are_placed():
    shapes = """<collision><origin xyz="0 0 2" rpy="0 1.5707963 0"/><geometry>
      <cylinder radius="0.1" length="1"/></geometry></collision><visual><origin xyz="0 0 -2"/>
      <geometry><sphere radius="0.1"/></geometry></visual>"""
    found = check_urdf(robot(shape=shapes, mass="30", inertia=diagonal(100, 100, 1)))
    assert [finding.what for finding in found] == [], found
    reach = 0.5 * np.linalg.norm([1.0, 0.2, 4.2])
    (finding,) = check_urdf(robot(shape=shapes, mass="30", inertia=diagonal(200, 200, 1)))
    assert f"extend {reach:.3g} m from their center" in finding.what


def test_the_advice_has_the_inertia_of_a_solid_box():
    (finding,) = check_urdf(robot(inertia=diagonal(1, 1, 1)))
    assert finding.advice.endswith("ixx, iyy, izz = 0.0283, 0.0333, 0.00833")


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_center_of_mass_may_be_a_little_outside(axis, side):
    """By a tenth of the distance from the middle of the shapes to their corners."""
    corner, center = np.array([0.1, 0.05, 0.2]), np.zeros(3)
    for part, count in ((0.099, 0), (0.101, 1)):
        center[axis] = side * (corner[axis] + part * np.linalg.norm(corner))
        found = check_urdf(robot(origin='<origin xyz="{} {} {}"/>'.format(*center)))
        assert len(found) == count
    assert "center of mass 0.0231 m outside" in found[0].what


@pytest.mark.parametrize("rpy", ["0.3 0 0", "0 1.2 0.4", "1.5707963 0 1.5707963", "2.5 -0.5 -2"])
def test_a_shape_may_be_turned_in_any_way(rpy):
    turn = Rotation.from_euler("xyz", [float(angle) for angle in rpy.split()])
    corners = [turn.apply([x, y, z])
               for x in (-0.1, 0.1) for y in (-0.3, 0.3) for z in (-1.0, 1.0)]
    shape = BOX.replace("0.2 0.1 0.4", "0.2 0.6 2").replace("<geometry>",
                                                            f'<origin rpy="{rpy}"/><geometry>')
    (finding,) = check_urdf(robot(shape=shape, mass="100", inertia=diagonal(200, 200, 200)))
    reach = np.linalg.norm(np.max(corners, axis=0))
    assert f"extend {reach:.3g} m from their center" in finding.what
    sides = 2.0 * np.max(corners, axis=0)
    solid = 100.0 / 12.0 * (sides @ sides - sides ** 2)
    assert finding.advice.endswith(", ".join(f"{moment:.3g}" for moment in solid))


def test_a_mimic_joint_needs_no_limits():
    idle = '<limit lower="0" upper="0" effort="0" velocity="0"/>'
    second = ('<link name="other"/><joint name="k" type="revolute"><parent link="arm"/>'
              f'<child link="other"/><mimic joint="j"/>{idle}</joint></robot>')
    assert check_urdf(robot().replace("</robot>", second)) == []


SHAPES = {
    '<box size="0.1 0.2 0.4"/>': 0.008,
    '<sphere radius="0.1"/>': 4.0 / 3.0 * np.pi * 0.001,
    '<cylinder radius="0.1" length="0.5"/>': np.pi * 0.005,
}


@pytest.mark.parametrize("shape, volume", SHAPES.items())
def test_a_density_that_no_body_has(shape, volume):
    """Of the shapes for eyes or of those for collisions, whichever are larger."""
    both = (f"<visual><geometry>{shape}</geometry></visual>"
            f"<collision><geometry>{shape}</geometry></collision>")
    for density, count in ((4.9, 1), (5.1, 0), (24.9e3, 0), (25.1e3, 1)):
        mass = density * volume
        moment = 0.02 * mass
        found = check_urdf(robot(shape=both, mass=str(mass),
                                 inertia=diagonal(moment, moment, moment)))
        assert len(found) == count
        if count:
            assert found[0].what == (f"has {mass:.3g} kg in shapes of {1e3 * volume:.3g} l: "
                                     f"{density:.3g} kg/m3")


def test_a_radius_of_gyration_that_no_body_has():
    """Between a fiftieth of the way to the corners of the shapes and all of it."""
    way = np.linalg.norm([0.1, 0.05, 0.2])
    for part, count in ((0.0199, 1), (0.0201, 0), (0.999, 0), (1.001, 1)):
        moment = 2.0 / 3.0 * 2.0 * (part * way) ** 2
        found = check_urdf(robot(inertia=diagonal(moment, moment, moment)))
        assert len(found) == count
        assert all(f"{part * way:.3g} m" in finding.what for finding in found)


FOREIGN = """<robot name="r" xmlns:x="http://x.org"><x:link name="far"><x:inertial/></x:link>
  <link name="a"><x:inertial><x:mass/></x:inertial><x:visual/>
    <inertial><x:mass value="9"/><mass value="2"/>{}</inertial>{}</link></robot>"""


def test_elements_of_other_namespaces_are_not_looked_at():
    assert check_urdf(FOREIGN.format(SOLID, BOX)) == []


@pytest.mark.parametrize("shape", [
    BOX.replace("0.2 0.1 0.4", "٣ 1 1"), BOX.replace("0.2 0.1 0.4", "nan 1 1"),
    BOX.replace("0.2 0.1 0.4", "1e200 1e200 1e200"), BOX.replace("0.2 0.1 0.4", "1 1"),
    '<visual><geometry><sphere radius="1e200"/></geometry></visual>'])
def test_a_shape_without_a_size(shape):
    assert check_urdf(robot(shape=shape, inertia=diagonal(1, 1, 1))) == []


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("mass, inertia, gyration", [
    ("2", diagonal("-1e-20", 0, 0), "0"), ("1e-320", diagonal(1, 1, 1), "inf")])
def test_moments_without_a_size(mass, inertia, gyration):
    found = check_urdf(robot(shape="", mass=mass, inertia=inertia))
    assert f"spreads its mass over {gyration} m" in found[-1].what


def test_beside_a_mesh_simple_shapes_tell_no_size():
    mesh = '<visual><geometry><mesh filename="arm.stl"/></geometry></visual>'
    assert check_urdf(robot(shape=mesh + BOX, inertia=diagonal(1, 1, 1))) == []
