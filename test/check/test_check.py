# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Findings about implausible robot descriptions."""

import re
import sys

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import peer
from dyn_ros.check import check_urdf, examine_urdf
from dyn_ros.check.hulls import Hull, measure_box
from dyn_ros.check.link_findings import HULL_MARGIN, MAX_DENSITY, MIN_DENSITY
from dyn_ros.engine.model.urdf import UrdfError

BOX = '<visual><geometry><box size="0.2 0.1 0.4"/></geometry></visual>'
SOLID = '<inertia ixx="0.02833" iyy="0.03333" izz="0.00833" ixy="0" ixz="0" iyz="0"/>'
LIMIT = '<limit lower="-1" upper="1" effort="5" velocity="2"/>'


def robot(shape=BOX, mass="2", inertia=SOLID, origin="", limit=LIMIT, kind="revolute"):
    return f"""<robot name="r"><link name="base"/><link name="arm">{shape}
      <inertial>{origin}<mass value="{mass}"/>{inertia}</inertial></link>
      <joint name="j" type="{kind}"><parent link="base"/><child link="arm"/>
      <axis xyz="0 0 1"/>{limit}</joint></robot>"""


def diagonal(*moments):
    return (
        "<inertia "
        + " ".join(f'{key}="{value}"' for key, value in zip(("ixx", "iyy", "izz"), moments))
        + ' ixy="0" ixz="0" iyz="0"/>'
    )


def test_a_sound_robot():
    assert check_urdf(robot()) == []
    assert check_urdf(robot(), "floating") == []


NO_SHAPES = "no shapes could be measured: centers of mass, spreads and densities are not checked"
SHARE = peer.EXAMPLE_ROBOTS.parents[1]


def finding_kinds(name):
    """Return the kinds of findings about an example robot with its meshes, by link."""
    pytest.importorskip("trimesh", reason="no viser: pip install viser")
    examined = examine_urdf(peer.urdf(name), folders=[SHARE])
    assert examined.unseen == []
    kinds = {}
    for finding in examined.findings:
        kinds.setdefault(finding.where.removeprefix("link ").strip('"'), []).append(finding.kind)
    return kinds


@pytest.mark.parametrize("name", ["go2", "kinova", "xarm7"])
def test_well_kept_robots(name):
    assert check_urdf(peer.urdf(name)) == []
    assert finding_kinds(name) == {}


@pytest.mark.parametrize("name", ["panda", "ur5"])
def test_without_its_meshes_little_is_known_of_a_robot(name):
    examined = examine_urdf(peer.urdf(name))
    assert examined.findings == []
    line, *consequence = examined.unseen
    assert "meshes are not found" in line and "mesh_paths=" in line
    assert consequence == ([NO_SHAPES] if name == "panda" else [])  # ur5 has a box


def test_copied_inertias():
    """Wrists with radii of gyration of 0.4 m, and a link like a rod of 1.3 m."""
    ur5, panda = finding_kinds("ur5"), finding_kinds("panda")
    assert all("mass-spread" in ur5[f"wrist_{n}_link"] for n in (1, 2, 3))
    assert set(ur5) == {"base_link", "wrist_1_link", "wrist_2_link", "wrist_3_link"}
    assert panda["panda_link1"] == panda["panda_link2"] == ["mass-spread"]


@pytest.mark.parametrize(
    "name, link, kind",
    [
        ("pr2", "fl_caster_l_wheel_link", "mass-spread"),  # 0.1 m in a wheel of 0.07 m
        ("pr2", "r_forearm_roll_link", "placeholder"),
        ("tiago", "hand_index_flex_1_link", "placeholder"),  # 0.4 m in a phalanx
        ("baxter", "left_gripper_base_link", "point-like"),
        ("iris", "iris__rotor_0", "mass-spread"),
        ("allegro_hand", "palm_link", "com-outside"),
        ("bolt", "base_link", "mass-spread"),
        ("anymal_c", "depth_camera_front_camera", "not-physical"),
        ("talos_reduced", "wrist_right_ft_link", "point-mass"),
    ],
)
def test_faults_of_other_robots(name, link, kind):
    assert kind in finding_kinds(name)[link]


def test_inertias_of_one():
    assert {kind for kinds in finding_kinds("simple_humanoid").values() for kind in kinds} == {
        "placeholder"
    }


def test_rounding_errors_and_meshes_with_y_up():
    """Centers of mass of icub are in its meshes only if these are turned to z up."""
    kinds = finding_kinds("icub_reduced")
    assert kinds["r_ankle_1"][0] == kinds["head"][0] == "point-mass"
    findings = check_urdf(peer.urdf("icub_reduced"), folders=[SHARE])
    assert findings[0].kind == "mesh-axis" and "56 COLLADA meshes" in findings[0].what
    assert "r_lower_leg" not in {
        finding.where for finding in findings if finding.kind == "com-outside"
    }


@pytest.mark.parametrize(
    "changed, where, what",
    [
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
        (
            {"limit": '<limit lower="0.5" upper="0.5" effort="5" velocity="2"/>'},
            "j",
            "limits are 0.5",
        ),
        (
            {"limit": '<limit lower="-1" upper="1" effort="-5" velocity="2"/>'},
            "j",
            "effort limit -5",
        ),
        (
            {"limit": '<limit lower="-1" upper="1" effort="1" velocity="0"/>'},
            "j",
            "velocity limit 0",
        ),
        ({"limit": ""}, "description", "no <limit>"),
    ],
)
def test_what_is_doubtful(changed, where, what):
    findings = [finding for finding in check_urdf(robot(**changed)) if what in finding.what]
    assert findings and where in findings[0].where and findings[0].advice


def test_the_shapes_are_where_they_are_placed():
    """A rod along x at z = 2, and a ball at z = -2, which are fitted by a solid of both."""
    shapes = """<collision><origin xyz="0 0 2" rpy="0 1.5707963 0"/><geometry>
      <cylinder radius="0.1" length="1"/></geometry></collision><visual><origin xyz="0 0 -2"/>
      <geometry><sphere radius="0.1"/></geometry></visual>"""
    assert (
        findings_of_kind("mass-spread", shape=shapes, mass="30", inertia=diagonal(110, 110, 1))
        == []
    )
    (finding,) = findings_of_kind(
        "mass-spread", shape=shapes, mass="30", inertia=diagonal(200, 200, 1)
    )
    low, high = finding.limits["spread"]
    assert low == 0.0 and 2.1 < high < 2.4 and "along z" in finding.what


def findings_of_kind(kind, **changed):
    return [finding for finding in check_urdf(robot(**changed)) if finding.kind == kind]


def test_the_advice_is_the_inertia_of_a_solid_box():
    (finding,) = check_urdf(robot(inertia=diagonal(1, 1, 1)))
    assert finding.kind == "placeholder"
    assert finding.advice == (
        'write <inertia ixx="0.0283333" ixy="0" ixz="0" iyy="0.0333333" iyz="0" '
        'izz="0.00833333"/>, the inertia of a solid with its shapes'
    )
    assert check_urdf(robot(inertia=finding.advice.split("write ")[1].split(", that")[0])) == []


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_center_of_mass_may_be_a_little_outside(axis, side):
    """By a tenth of the distance from the middle of the shapes to their corners."""
    corner, center = np.array([0.1, 0.05, 0.2]), np.zeros(3)
    for part, count in ((0.099, 0), (0.101, 1)):
        center[axis] = side * (corner[axis] + part * np.linalg.norm(corner))
        findings = findings_of_kind(
            "com-outside", origin='<origin xyz="{} {} {}"/>'.format(*center)
        )
        assert len(findings) == count
    assert "center of mass 0.0231 m outside" in findings[0].what
    assert findings[0].advice.endswith('<origin xyz="0 0 0" rpy="0 0 0"/>')


@pytest.mark.parametrize("rpy", ["0.3 0 0", "0 1.2 0.4", "1.5707963 0 1.5707963", "2.5 -0.5 -2"])
def test_a_shape_may_be_turned_in_any_way(rpy):
    """Findings do not depend on it, and the inertia of the advice is turned."""
    turn = Rotation.from_euler("xyz", [float(angle) for angle in rpy.split()]).as_matrix()
    shape = BOX.replace("0.2 0.1 0.4", "0.2 0.6 2").replace(
        "<geometry>", f'<origin rpy="{rpy}"/><geometry>'
    )
    (finding,) = check_urdf(robot(shape=shape, mass="100", inertia=diagonal(200, 200, 200)))
    reach = np.linalg.norm([0.1, 0.3, 1.0])
    assert finding.limits["spread"][1] == pytest.approx(0.1 + HULL_MARGIN * reach)
    solid = turn @ np.diag(100.0 / 12.0 * np.array([4.36, 4.04, 0.4])) @ turn.T
    moments = dict(re.findall(r'(i..)="(\S+)"', finding.advice))
    assert float(moments["ixx"]) == pytest.approx(solid[0, 0], rel=1e-5)
    assert float(moments["iyz"]) == pytest.approx(solid[1, 2], rel=1e-5, abs=1e-3)


def test_the_advice_is_in_the_axes_of_the_inertia():
    origin = '<origin rpy="0 0 1.5707963267948966"/>'
    (finding,) = check_urdf(robot(origin=origin, inertia=diagonal(1, 1, 1)))
    moments = dict(re.findall(r'(i..)="(\S+)"', finding.advice))
    assert (moments["ixx"], moments["iyy"]) == ("0.0333333", "0.0283333")


def test_limits_in_degrees():
    degrees = '<limit lower="-170" upper="85.5" effort="5" velocity="180"/>'
    position, velocity = check_urdf(robot(limit=degrees))
    assert (position.kind, velocity.kind) == ("degrees", "degrees")
    assert 'lower="-2.96706" upper="1.49226"' in position.advice
    assert 'velocity="3.14159"' in velocity.advice
    assert check_urdf(robot(limit=degrees, kind="continuous")) == []
    assert check_urdf(robot(limit=degrees, kind="prismatic")) == []


@pytest.mark.parametrize(
    "limit",
    [
        '<limit lower="-12.6" upper="12.6" effort="5" velocity="60"/>',  # turns several times
        '<limit lower="-1e16" upper="1e16" effort="5" velocity="2"/>',  # has no limit
        '<limit lower="-9.42" upper="9.42" effort="5"/>',
    ],
)
def test_limits_that_are_no_degrees(limit):
    assert [
        finding.kind for finding in check_urdf(robot(limit=limit)) if "rad" in finding.what
    ] == []


def test_a_velocity_limit_that_no_joint_reaches():
    for name, count in (("solo12", 12), ("baxter", 1)):
        kinds = [finding.kind for finding in check_urdf(peer.urdf(name))]
        assert kinds.count("velocity-limit") == count and "degrees" not in kinds


@pytest.mark.parametrize("where", ["joint", "link", "shape"])
def test_angles_in_degrees(where):
    origin = '<origin xyz="0 0 0" rpy="0 90 -180"/>'
    text = {
        "joint": robot().replace("<axis", origin + "<axis"),
        "link": robot(origin=origin),
        "shape": robot(shape=BOX.replace("<visual>", "<visual>" + origin)),
    }[where]
    finding = next(finding for finding in check_urdf(text) if finding.kind == "degrees")
    assert finding.where == ('joint "j"' if where == "joint" else 'link "arm"')
    assert 'rpy="0 1.5708 -3.14159"' in finding.advice
    for rpy in ("0 6.2832 -3.1416", "what"):
        assert (
            check_urdf(robot(shape=BOX.replace("<visual>", f'<visual><origin rpy="{rpy}"/>'))) == []
        )


@pytest.mark.parametrize("names, order", [("ixx and izz", (2, 1, 0)), ("ixx and iyy", (1, 0, 2))])
def test_swapped_moments(names, order):
    rod = '<visual><geometry><box size="0.5 0.1 0.04"/></geometry></visual>'
    moments = np.array([0.00193, 0.0419, 0.0433])
    assert check_urdf(robot(shape=rod, inertia=diagonal(*moments))) == []
    swapped = moments[list(order)]
    (finding,) = check_urdf(robot(shape=rod, inertia=diagonal(*swapped)))
    assert finding.kind == "swapped-moments" and f"{names} that fit" in finding.what
    kinds = [
        finding.kind for finding in check_urdf(robot(shape=rod, inertia=diagonal(*3 * swapped)))
    ]
    assert "swapped-moments" not in kinds


def test_coarse_collision_shapes_are_no_advice_for_the_center_of_mass():
    """The head of Unitree's b2."""
    text = robot(
        shape='<collision><origin xyz="0.41 0 0.005"/><geometry><box size="0.04 0.12 0.14"/>'
        "</geometry></collision>",
        mass="3.7",
        inertia=diagonal(0.026, 0.029, 0.011),
        origin='<origin xyz="0.34 0 0.12"/>',
    )
    (finding,) = [finding for finding in check_urdf(text) if finding.kind == "com-outside"]
    assert "do the collision shapes show the whole link?" in finding.advice
    assert "xyz=" not in finding.advice
    (finding,) = [
        finding
        for finding in check_urdf(text.replace("collision", "visual"))
        if finding.kind == "com-outside"
    ]
    assert "xyz=" in finding.advice


def test_a_planar_joint_without_an_axis():
    planar = robot(kind="planar").replace('<axis xyz="0 0 1"/>', "")
    finding, _ = check_urdf(planar)
    assert finding.kind == "planar-axis" and '<axis xyz="0 0 1"/>' in finding.advice
    assert [finding.kind for finding in check_urdf(robot(kind="planar"))] == ["unreported-joint"]


@pytest.mark.parametrize("kind", ["floating", "planar"])
def test_a_moving_base_within_the_description(kind):
    (finding,) = check_urdf(robot(kind=kind))
    assert finding.kind == "unreported-joint" and finding.where == 'joint "j"'
    assert finding.what == f"is {kind}, and no joint state reports its position"
    assert finding.advice == f'remove it and what is above it (base), and set root_joint="{kind}"'


def test_a_mimic_joint_needs_no_limits():
    idle = '<limit lower="0" upper="0" effort="0" velocity="0"/>'
    second = (
        '<link name="other"/><joint name="k" type="revolute"><parent link="arm"/>'
        f'<child link="other"/><mimic joint="j"/>{idle}</joint></robot>'
    )
    assert check_urdf(robot().replace("</robot>", second)) == []


@pytest.mark.parametrize(
    "mimic, fault",
    [('joint="other"', 'mimics the unknown joint "other"'), ('joint="k"', "mimics itself")],
)
def test_a_mimic_joint_of_nothing_is_a_finding(mimic, fault):
    second = (
        '<link name="other"/><joint name="k" type="revolute"><parent link="arm"/>'
        f'<child link="other"/><mimic {mimic}/></joint></robot>'
    )
    first, *remaining = check_urdf(robot(inertia=diagonal(1, 1, 1)).replace("</robot>", second))
    assert first.kind == "description" and fault in first.what
    assert "placeholder" in [finding.kind for finding in remaining]
    assert 'joint "k"' not in [finding.where for finding in remaining]


def test_a_description_that_cannot_be_used_is_an_error():
    with pytest.raises(UrdfError, match="unknown link"):
        check_urdf(robot().replace('<child link="arm"/>', '<child link="leg"/>'))


SHAPES = {
    '<box size="0.1 0.2 0.4"/>': 0.008,
    '<sphere radius="0.1"/>': 4.0 / 3.0 * np.pi * 0.001,
    '<cylinder radius="0.1" length="0.5"/>': np.pi * 0.005,
    '<capsule radius="0.1" length="0.5"/>': np.pi * 0.005 + 4.0 / 3.0 * np.pi * 0.001,
    '<capsule radius="0.1" length="0"/>': 4.0 / 3.0 * np.pi * 0.001,
}


@pytest.mark.parametrize("shape, volume", SHAPES.items())
def test_a_density_that_no_body_has(shape, volume):
    """Of shapes that are visual ones and for collisions."""
    shapes = (
        f"<visual><geometry>{shape}</geometry></visual>"
        f"<collision><geometry>{shape}</geometry></collision>"
    )
    for density, count in (
        (0.98 * MIN_DENSITY, 1),
        (1.02 * MIN_DENSITY, 0),
        (0.996 * MAX_DENSITY, 0),
        (1.004 * MAX_DENSITY, 1),
    ):
        mass = density * volume
        moment = 0.003 * mass
        findings = check_urdf(
            robot(shape=shapes, mass=str(mass), inertia=diagonal(moment, moment, moment))
        )
        assert len(findings) == count
        if count:
            assert findings[0].what.startswith(
                f"has {mass:.3g} kg in shapes of {1e3 * volume:.3g} l: {density:.3g} kg/m3, "
            )
            advised = float(re.search(r"it is at (?:least|most) (\S+) kg", findings[0].advice)[1])
            assert 0.98 < advised / np.clip(mass, MIN_DENSITY * volume, MAX_DENSITY * volume) < 1.02
            assert (
                check_urdf(
                    robot(shape=shapes, mass=str(advised), inertia=diagonal(moment, moment, moment))
                )
                == []
            )


@pytest.mark.parametrize(
    "density, words",
    [
        (1.0, "lighter than foam"),
        (8.6e3, "denser than steel"),
        (12e3, "denser than lead"),
        (25e3, "denser than any material"),
    ],
)
def test_the_material_of_a_density(density, words):
    moment = 0.003 * density * 0.008
    (finding,) = check_urdf(
        robot(mass=str(0.008 * density), inertia=diagonal(moment, moment, moment))
    )
    assert finding.what.endswith(words)


@pytest.mark.parametrize("axis", range(3))
def test_a_radius_of_gyration_that_no_body_has(axis):
    """Two point masses at the ends of the shapes, and their margin, have the largest one."""
    half = np.array([0.1, 0.05, 0.2])
    end = half[axis] + HULL_MARGIN * np.linalg.norm(half)
    for part, count in ((0.999, 0), (1.001, 1)):
        variances = np.full(3, 1e-4)
        variances[axis] = (part * end) ** 2
        findings = check_urdf(robot(inertia=diagonal(*(2.0 * (variances.sum() - variances)))))
        assert [finding.kind for finding in findings] == ["mass-spread"] * count
    assert f"over {part * end:.3g} m along {'xyz'[axis]}" in findings[0].what
    assert findings[0].limits == {"spread": [0.0, pytest.approx(end)]}


def test_nearly_a_point():
    """Less than a tenth of the radius of gyration of a solid."""
    moments = np.array([0.17, 0.2, 0.05]) / 6.0
    for part, count in ((0.0101, 0), (0.0099, 1)):
        findings = check_urdf(robot(inertia=diagonal(*(part * moments))))
        assert [finding.kind for finding in findings] == ["point-like"] * count


@pytest.mark.parametrize("seed", range(20))
def test_any_mass_in_the_shapes_is_plausible(seed):
    """Points with random masses in a box."""
    rng = np.random.default_rng(seed)
    half = np.array([0.1, 0.05, 0.2])
    points = rng.uniform(-1.0, 1.0, (5, 3)) * half
    points[:2] = [half, -half]
    masses = rng.dirichlet(np.ones(5))
    com = masses @ points
    second = np.einsum("n,ni,nj->ij", masses, points - com, points - com)
    I = 2.0 * (np.trace(second) * np.eye(3) - second)
    inertia = '<inertia ixx="{}" ixy="{}" ixz="{}" iyy="{}" iyz="{}" izz="{}"/>'.format(
        *I[np.triu_indices(3)]
    )
    assert check_urdf(robot(origin='<origin xyz="{} {} {}"/>'.format(*com), inertia=inertia)) == []


FOREIGN = """<robot name="r" xmlns:x="http://x.org"><x:link name="far"><x:inertial/></x:link>
  <link name="a"><x:inertial><x:mass/></x:inertial><x:visual/>
    <inertial><x:mass value="9"/><mass value="2"/>{}</inertial>{}</link></robot>"""


def test_elements_of_other_namespaces_are_not_looked_at():
    assert check_urdf(FOREIGN.format(SOLID, BOX)) == []


@pytest.mark.parametrize(
    "shape",
    [
        BOX.replace("0.2 0.1 0.4", "٣ 1 1"),
        BOX.replace("0.2 0.1 0.4", "nan 1 1"),
        BOX.replace("0.2 0.1 0.4", "1e200 1e200 1e200"),
        BOX.replace("0.2 0.1 0.4", "1 1"),
        '<visual><geometry><sphere radius="1e200"/></geometry></visual>',
    ],
)
def test_a_shape_without_a_size(shape):
    assert check_urdf(robot(shape=shape, inertia=diagonal(2, 2, 2))) == []


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "inertia, what",
    [(diagonal(1, 1, 1), "over inf m"), (diagonal(2, 2, 2), "spreads its mass over")],
)
@pytest.mark.parametrize("shape", ["", BOX])
def test_a_mass_too_small_to_divide_by(inertia, what, shape):
    findings = check_urdf(robot(shape=shape, mass="1e-320", inertia=inertia))
    assert any(what in finding.what for finding in findings)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", ["0.2 0.1 0.4", "1e-320 1e-9 1e-9", "0 0 0", "0 1 1"])
def test_negative_moments_that_the_reader_accepts(size):
    """Below 1e-15 kg m2, which is not small for a mass of 1e-30 kg."""
    findings = check_urdf(
        robot(shape=BOX.replace("0.2 0.1 0.4", size), mass="1e-30", inertia=diagonal(-1e-20, 0, 0))
    )
    assert "rounding" in [finding.kind for finding in findings]


@pytest.mark.parametrize("shape", ["", BOX])
def test_moments_that_are_rounding_errors(shape):
    finding = check_urdf(robot(shape=shape, inertia=diagonal("-5.4e-20", 0, "-5.4e-20")))[-1]
    assert finding.kind == "point-mass" and finding.where == 'link "arm"'
    assert "5.4e-20 kg m2, which are rounding errors" in finding.what
    (finding,) = check_urdf(robot(shape=shape, inertia=diagonal("-5.4e-20", 0.02, 0.02)))
    assert finding.kind == "rounding" and finding.advice == "write 0 for ixx"
    assert finding.values["ixx"] == -5.4e-20 and finding.limits == {"ixx": [0.0, None]}
    (finding,) = check_urdf(robot(shape=shape, inertia=diagonal(-0.001, 0.02, 0.02)))
    assert finding.kind == "not-physical"


def test_meshes_of_other_uris_are_not_sought_in_packages():
    shape = '<visual><geometry><mesh filename="http://example.com/arm.stl"/></geometry></visual>'
    line, _ = examine_urdf(robot(shape=shape)).unseen
    assert line == (
        "meshes are not found (1): mesh 'http://example.com/arm.stl': expected package://, "
        "file:// or a path"
    )


def test_beside_a_mesh_simple_shapes_tell_no_size():
    mesh = '<visual><geometry><mesh filename="arm.stl"/></geometry></visual>'
    examined = examine_urdf(robot(shape=mesh + BOX, inertia=diagonal(2, 2, 2)))
    assert examined.findings == []
    assert examined.unseen == [
        "meshes are not found (1), such as 'arm.stl'; name the folder that they are relative "
        "to in mesh_paths=, or write package://PACKAGE/... in the description",
        NO_SHAPES,
    ]


# --- links that are fixed to each other


def fixed(inertia, mass="0.001", more=""):
    """The arm with a camera that is fixed to it at x = 0.1."""
    return robot().replace(
        "</robot>",
        f"""<link name="camera">{more}<inertial>
      <mass value="{mass}"/>{inertia}</inertial></link><joint name="mount" type="fixed">
      <origin xyz="0.1 0 0"/><parent link="arm"/><child link="camera"/></joint></robot>""",
    )


def test_a_link_that_does_not_count_is_left_out():
    """Beside the arm of 2 kg and 0.07 kg m2."""
    assert [f.kind for f in check_urdf(fixed(diagonal(1e-4, 1e-4, 1e-4)))] == []
    assert [f.kind for f in check_urdf(fixed(diagonal(1e-2, 1e-2, 1e-2)))] == ["placeholder"]
    assert [f.kind for f in check_urdf(fixed(diagonal(0, 0, 1e-6)))] == ["not-physical"]


def test_mass_may_be_in_the_shapes_of_massless_links_that_are_fixed():
    """The inertia of the arm and of a rod, 2 m long, that has no mass of its own."""
    arm_and_rod = diagonal(1, 1, 0.00833)
    assert [f.kind for f in check_urdf(robot(inertia=arm_and_rod))] == ["mass-spread"]
    rod = '<visual><geometry><cylinder radius="0.02" length="2"/></geometry></visual>'
    text = fixed(diagonal(0, 0, 0), "0", rod).replace(SOLID, arm_and_rod)
    assert check_urdf(text) == []


def test_a_link_without_shapes_is_compared_with_those_it_is_fixed_to():
    text = fixed(diagonal(0.002, 0.002, 0.002), "0.5")
    assert check_urdf(text) == []
    (finding,) = check_urdf(text.replace('<origin xyz="0.1 0 0"/>', '<origin xyz="0 0 5"/>'))
    assert (finding.where, finding.kind) == ('link "camera"', "com-outside")


# --- meshes


def stl(points):
    """The convex hull of points as the text of an STL file."""
    hull = Hull(points)
    facets = "".join(
        "facet normal 0 0 0\nouter loop\n"
        + "".join("vertex {} {} {}\n".format(*hull.points[n]) for n in triangle)
        + "endloop\nendfacet\n"
        for triangle in hull.triangles
    )
    return f"solid s\n{facets}endsolid s\n"


@pytest.fixture
def box_mesh(tmp_path):
    """A description of the arm with a mesh of its box, in the folder meshes."""
    pytest.importorskip("trimesh", reason="no viser: pip install viser")
    folder = tmp_path / "robot_pkg" / "meshes"
    folder.mkdir(parents=True)
    (folder / "arm.stl").write_text(stl(measure_box(0.2, 0.1, 0.4)[0]))
    (folder / "arm_mm.stl").write_text(stl(measure_box(200, 100, 400)[0]))
    return tmp_path


def mesh(file="arm.stl", more=""):
    return (
        '<visual><geometry><mesh filename="package://robot_pkg/meshes/'
        f'{file}" {more}/></geometry></visual>'
    )


def test_a_mesh_is_measured(box_mesh):
    def mesh_findings(**changed):
        return check_urdf(robot(shape=mesh(), **changed), folders=[box_mesh])

    assert mesh_findings() == []
    (finding,) = mesh_findings(inertia=diagonal(1, 1, 1.5))
    assert finding.kind == "mass-spread"
    assert 'ixx="0.0283333" ixy="0" ixz="0" iyy="0.0333333"' in finding.advice
    (finding,) = mesh_findings(mass="200", inertia=diagonal(2.8, 3.3, 0.8))
    assert "200 kg in shapes of 8 l: 2.5e+04 kg/m3" in finding.what
    assert [f.kind for f in mesh_findings(origin='<origin xyz="0 0 0.3"/>')][-1] == "com-outside"


@pytest.mark.parametrize("scale, size", [("1 1 2", (0.2, 0.1, 0.8)), ("-1 1 1", (0.2, 0.1, 0.4))])
def test_a_mesh_is_scaled(box_mesh, scale, size):
    shape = mesh(more=f'scale="{scale}"')
    (finding,) = check_urdf(robot(shape=shape, inertia=diagonal(9, 9, 9)), folders=[box_mesh])
    x, y, z = np.array(size) ** 2
    moments = dict(re.findall(r'(i..)="(\S+)"', finding.advice))
    assert [float(moments[key]) for key in ("ixx", "iyy", "izz")] == pytest.approx(
        [2.0 / 12.0 * (y + z), 2.0 / 12.0 * (x + z), 2.0 / 12.0 * (x + y)], rel=1e-5
    )


def test_a_mesh_in_millimeters(box_mesh):
    far = robot(shape=mesh("arm_mm.stl")).replace("<axis", '<origin xyz="0 0 0.4"/><axis')
    (finding,) = check_urdf(far, folders=[box_mesh])
    assert finding.kind == "mesh-unit" and "229 m" in finding.what
    assert 'scale="0.001 0.001 0.001"' in finding.advice
    scaled = far.replace('arm_mm.stl"', 'arm_mm.stl" scale="0.001 0.001 0.001"')
    assert check_urdf(scaled, folders=[box_mesh]) == []


def test_meshes_that_cannot_be_read(box_mesh):
    (box_mesh / "robot_pkg" / "meshes" / "broken.stl").write_text("solid nonsense")
    examined = examine_urdf(robot(shape=mesh("broken.stl")), folders=[box_mesh])
    line, _ = examined.unseen
    assert examined.findings == [] and "broken.stl" in line and "cannot be read" in line


def test_a_mesh_whose_address_is_not_a_uri():
    shape = '<visual><geometry><mesh filename="//["/></geometry></visual>'
    line, _ = examine_urdf(robot(shape=shape)).unseen
    assert "'//['" in line


@pytest.mark.parametrize("scale", ["0.001", "nan 1 1", "1,1,1"])
def test_a_scale_that_cannot_be_read_is_stated(box_mesh, scale):
    material = '<visual><material name="m"><color rgba="red"/></material>'
    shape = mesh(more=f'scale="{scale}"').replace("<visual>", material)
    examined = examine_urdf(robot(shape=shape, inertia=diagonal(9, 9, 9)), folders=[box_mesh])
    line, _ = examined.unseen
    assert line == (f"a visual of link 'arm' is omitted: expected 3 finite numbers, got '{scale}'")


@pytest.mark.parametrize(
    "primitive, words",
    [
        ('<capsule radius="0.1" lenght="1"/>', "its capsule has no attribute length"),
        ('<cylinder radius="x" length="1"/>', "expected a finite number, got 'x'"),
        ("<box/>", "its box has no attribute size"),
    ],
)
def test_a_size_that_cannot_be_read_is_stated(primitive, words):
    shape = f"<collision><geometry>{primitive}</geometry></collision>"
    line, *_ = examine_urdf(robot(shape=shape)).unseen
    assert line == f"a collision of link 'arm' is omitted: {words}"


@pytest.mark.parametrize("more", ['scale="0 1 1"', 'scale="1e-9 1e-9 1e-9"'])
def test_shapes_without_volume_are_stated(box_mesh, more):
    examined = examine_urdf(
        robot(shape=mesh(more=more), inertia=diagonal(9, 9, 9)), folders=[box_mesh]
    )
    assert examined.findings == []
    line, _ = examined.unseen
    assert line == "the shapes of link 'arm' enclose no volume and are not examined"


def test_without_trimesh_meshes_are_not_examined(box_mesh, monkeypatch):
    monkeypatch.setitem(sys.modules, "trimesh", None)
    text = robot(shape=mesh(), inertia=diagonal(28333, 33333, 8333))
    examined = examine_urdf(text, folders=[box_mesh])
    line, _ = examined.unseen
    assert "trimesh is not installed" in line and "dyn_ros[check]" in line
    assert [finding.kind for finding in examined.findings] == ["mass-spread"]


def test_progress_is_reported_for_each_mesh_once(box_mesh):
    steps = []
    shape = mesh() + mesh("arm_mm.stl", 'scale="0.001 0.001 0.001"') + mesh()
    assert (
        examine_urdf(
            robot(shape=shape), None, [box_mesh], lambda *step: steps.append(step)
        ).findings
        == []
    )
    assert steps == [(0, 2, "arm.stl"), (1, 2, "arm_mm.stl"), (2, 2, "")]


@pytest.mark.parametrize(
    ("name", "mass", "kinds"),
    [("camera_optical_frame", 0.1, []), ("camera_link", 0.1, ["placeholder"])],
)
def test_optical_frames_of_cameras_are_no_bodies(name, mass, kinds):
    text = robot().replace(
        "</robot>",
        f"""<link name="{name}"><inertial><mass value="{mass}"/>
      {diagonal(0.01, 0.01, 0.01)}</inertial></link>
      <joint name="k" type="fixed"><parent link="arm"/><child link="{name}"/></joint></robot>""",
    )
    assert [finding.kind for finding in check_urdf(text)] == kinds


@pytest.mark.parametrize(
    ("mass", "moment", "kinds"), [(0.005, 1e-4, []), (0.005, 1e-1, ["placeholder"])]
)
def test_light_links_without_shapes_are_axes_of_sensors(mass, moment, kinds):
    """A robot of 2 kg with the depth frame of a camera, which has a placeholder."""
    text = robot().replace(
        "</robot>",
        f"""<link name="depth_frame"><inertial>
      <mass value="{mass}"/>{diagonal(moment, moment, moment)}</inertial></link>
      <joint name="k" type="fixed"><parent link="arm"/><child link="depth_frame"/></joint>
      </robot>""",
    )
    assert [finding.kind for finding in check_urdf(text)] == kinds
