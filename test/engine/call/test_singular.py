# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Singular inertia matrices are found in every configuration, and regular ones are not."""

import numpy as np
import pinocchio
import pytest

import dyn_ros
import peer
from dyn_ros.engine.call import singular

LIMIT = '<limit lower="-1" upper="1" effort="1" velocity="1"/>'
SOLID = (1.0, (0.0, 0.1, 0.2), 1.0)
EPSILON = np.finfo(float).eps


def link(name, body):
    """A link; its body is None or mass, center of mass and moment about all axes."""
    if body is None:
        return f'<link name="{name}"/>'
    mass, com, moment = body
    return f"""<link name="{name}"><inertial><origin xyz="{" ".join(map(repr, com))}"/>
      <mass value="{mass!r}"/><inertia ixx="{moment!r}" ixy="0" ixz="0" iyy="{moment!r}" iyz="0"
      izz="{moment!r}"/></inertial></link>"""


def serial(kinds, bodies, axes=None, origins=None, more=""):
    """A URDF of joints j0, j1, .. one behind the other; axes and origins are random."""
    rng = np.random.default_rng(len(kinds))
    text = link("l0", None) + more
    for k, (kind, body) in enumerate(zip(kinds, bodies, strict=True)):
        axis = rng.normal(size=3) if axes is None else axes[k]
        origin = 0.3 * rng.normal(size=3) if origins is None else origins[k]
        turn = rng.uniform(-3.0, 3.0, 3) if origins is None else np.zeros(3)
        text += (
            link(f"l{k + 1}", body)
            + f"""
          <joint name="j{k}" type="{kind}"><parent link="l{k}"/><child link="l{k + 1}"/>
            <origin xyz="{" ".join(map(repr, map(float, origin)))}"
             rpy="{" ".join(map(repr, map(float, turn)))}"/>
            <axis xyz="{" ".join(map(repr, map(float, axis)))}"/>{LIMIT}</joint>"""
        )
    return f'<robot name="serial">{text}</robot>'


def point(*com, mass=1.0):
    return mass, com, 0.0


TURNS, NEAR_Z = ["continuous"], (1e-3, 0.0, 1.0)
Z = (0.0, 0.0, 1.0)
SINGULAR = {  # the URDF, and the joint that is named
    "floating": (serial(["continuous", "floating"], [SOLID, point(0.1, 0.2, 0.3)]), "j1/angular_x"),
    "floating, near an axis": (
        serial(["continuous", "floating"], [SOLID, point(*NEAR_Z)]),
        "j1/angular_x",
    ),
    "four turns": (serial(TURNS * 4, [None] * 3 + [point(0.1, 0.2, 0.3)]), "j0"),
    "six turns": (serial(TURNS * 6, [None] * 5 + [point(0.1, 0.2, 0.3)]), "j2"),
    "four turns on solid links": (
        serial(TURNS * 7, [SOLID] * 3 + [None] * 3 + [point(0.1, 0.2, 0.3)]),
        "j3",
    ),
    "three slides": (serial(TURNS + ["prismatic"] * 3, [None] * 3 + [point(0.1, 0.2, 0.3)]), "j0"),
    "three slides of the mass's point": (
        serial(TURNS + ["prismatic"] * 3, [None] * 3 + [point(0.0, 0.0, 0.0)]),
        "j0",
    ),
    "four slides": (serial(["prismatic"] * 4, [None] * 3 + [SOLID]), "j0"),
    "slides and turns": (
        serial(["prismatic", "continuous"] * 2, [None] * 3 + [point(0.0, 0.0, 0.2)]),
        "j0",
    ),
    "on the axis": (
        serial(
            TURNS * 3, [SOLID, SOLID, point(0.0, 0.0, 7.0)], [(1.0, 0.3, 0.2), (0.1, 1.0, 0.0), Z]
        ),
        "j2",
    ),
    "on an oblique axis": (
        serial(
            TURNS * 3,
            [SOLID, SOLID, point(7.0, 14.0, -21.0)],
            [(1.0, 0.3, 0.2), (0.1, 1.0, 0.0), (1.0, 2.0, -3.0)],
        ),
        "j2",
    ),
}
MIMIC = f"""<link name="thumb"/><joint name="thumb_joint" type="continuous"><parent link="l1"/>
  <child link="thumb"/>{LIMIT}<mimic joint="j0"/></joint></robot>"""


def raised(name, model, data, q):
    """What the error says, or nothing."""
    zero = np.zeros((*q.shape[:-1], model.nv))
    try:
        getattr(dyn_ros, name)(model, data, q, *([zero, zero] if name == "aba" else []))
    except np.linalg.LinAlgError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("scale", [1.0, 1e-12, 1e12])
@pytest.mark.parametrize("name", ["aba", "minverse"])
@pytest.mark.parametrize("xml, joint", SINGULAR.values(), ids=SINGULAR)
@pytest.mark.parametrize("mimic", [False, True], ids=["tree", "mimic"])
def test_singular_in_every_configuration(xml, joint, name, mimic, scale):
    if mimic:
        xml = xml.replace("</robot>", MIMIC)
    model = dyn_ros.Model.from_urdf(scaled(xml, scale))
    data, rng = dyn_ros.Data(model), np.random.default_rng(0)
    states = np.array([model.random_configuration(rng) for _ in range(200 if scale == 1.0 else 20)])
    for q in states:
        assert raised(name, model, data, q).startswith(f"{name}: {joint!r} moves no inertia")
    for first in range(0, len(states), 10):
        assert joint in raised(name, model, data, states[first : first + 9])


def scaled(xml, scale):
    """The same robot in another unit of mass."""
    for number in ("mass value", "ixx", "iyy", "izz"):
        parts = xml.split(f'{number}="')
        xml = parts[0] + "".join(
            f'{number}="{float(part.split(chr(34))[0]) * scale!r}"' + part.split('"', 1)[1]
            for part in parts[1:]
        )
    return xml


def test_one_singular_state_among_regular_ones():
    """A point mass on two parallel joints: singular where the arm is stretched or folded."""
    model = dyn_ros.Model.from_urdf(
        serial(TURNS * 2, [None, point(1.0, 0.0, 0.0)], [Z, Z], [(0.0, 0.0, 0.0), (1.0, 0.0, 0.0)])
    )
    data, states = dyn_ros.Data(model), np.random.default_rng(0).uniform(0.5, 2.5, (50, 2))
    inverses = dyn_ros.minverse(model, data, states)
    peer.close(inverses, np.linalg.inv(dyn_ros.crba(model, data, states)), 1e-12)
    assert not raised("minverse", model, data, states[7])
    for angle in 0.0, np.pi:
        states[40, 1] = angle
        assert "'j0' moves no inertia" in raised("minverse", model, data, states)
        assert "'j0' moves no inertia" in raised("minverse", model, data, states[40])
    states[40, 1] = 1e-4  # 1e-8 kg m2 are left: doubtful, and regular
    found = dyn_ros.minverse(model, data, states)
    peer.close(found[40], np.linalg.inv(dyn_ros.crba(model, data, states[40])), 1e-5)
    peer.close(found[:40], inverses[:40], 1e-14)


@peer.robots(("every_joint", "panda", "solo12", "ball_joints"), (None, "floating", "planar"))
def test_roots_of_the_inertia_matrix_are_those_of_crba(robot, root_joint):
    pair = peer.new_pair(robot, root_joint)
    model, q = pair.model, pair.states(5)[0]
    for k in model._unit_quaternions:
        q[:, k : k + 4] *= 1.0 + 4e-7  # which still counts as unit
    model.armature = np.linspace(-0.1, 0.2, model.nv)
    roots, signs, _ = singular._roots_of_inertia(model, q)
    peer.close(roots.swapaxes(-1, -2) @ (signs * roots), dyn_ros.crba(model, pair.data, q), 1e-12)


def test_the_negative_inertia_of_a_link_is_named():
    xml = serial(TURNS * 2, [SOLID, (1.0, (0.0, 0.0, 0.1), -0.3)], [(1.0, 0.0, 0.0), Z])
    model = dyn_ros.Model.from_urdf(xml)
    said = raised("minverse", model, dyn_ros.Data(model), np.array([0.1, 0.2]))
    assert "'j1' moves a negative inertia, -0.3 kg m2" in said
    assert "correct the inertias of the links that it moves" in said


def test_words_have_the_unit_of_the_joint_that_a_mimic_joint_follows():
    xml = serial(TURNS, [SOLID]).replace("</robot>", MIMIC.replace("continuous", "prismatic"))
    model = dyn_ros.Model.from_urdf(xml)
    model.armature = [-100.0]
    assert " kg m2, so" in raised("aba", model, dyn_ros.Data(model), model.neutral())


@pytest.mark.parametrize(
    "kind, last",
    [("planar", "kg m2"), ("floating", "kg m2"), ("prismatic", "kg"), ("revolute", "kg m2")],
)
def test_words_have_the_unit_of_each_velocity(kind, last):
    model = dyn_ros.Model.from_urdf(serial([kind], [SOLID]))
    for k, name in enumerate(model.velocity_names):
        model.armature = -100.0 * (np.arange(model.nv) == k)
        unit = "kg" if "linear" in name else last
        said = raised("aba", model, dyn_ros.Data(model), model.neutral())
        assert f"{name!r} moves a negative inertia" in said and f" {unit}, so" in said


def test_words_say_what_is_rounding_beside_what():
    model = dyn_ros.Model.from_urdf(SINGULAR["on an oblique axis"][0])
    said = raised("aba", model, dyn_ros.Data(model), np.array([0.3, 0.2, 0.1]))
    assert "moves no inertia: of the" in said and "kg m2 that it moves" in said
    assert "a rounding error" in said and "model.armature" in said
    model = dyn_ros.Model.from_urdf(SINGULAR["four slides"][0])
    assert "of the 1 kg that" in raised("aba", model, dyn_ros.Data(model), np.zeros(4))


# --- regular robots, however large the ratios


def far(distance, moment, mass=1.0):
    """Its second joint carries a body far out on its axis."""
    return serial(TURNS * 2, [SOLID, (mass, (0.0, 0.0, distance), moment)], [(1.0, 0.2, 0.3), Z])


REGULAR = {  # the URDF, and the smallest part of an inertia that is left of what cancels
    "far out": (far(1e5, 1.0), 1e-10),
    "far out and small": (far(1e5, 1e-4), 1e-14),
    "far out, heavy": (far(1e5, 0.1, 1e3), 1e-14),
    "light wrist under a heavy load": (
        serial(
            TURNS * 3,
            [SOLID, (1.0, (0.0, 0.0, 0.0), 1e-3), (1e9, (0.1, 0.0, 0.0), 1e6)],
            [Z, (0.0, 1.0, 0.0), Z],
            [(0.0, 0.0, 0.0), (0.1, 0.0, 0.0), (0.0, 0.0, 0.0)],
        ),
        1e-9,
    ),
    "heavy pendulum on a light one": (
        serial(
            TURNS * 2,
            [(1.0, (0.1, 0.0, 0.0), 0.1), (1e9, (1.0, 0.0, 0.0), 1e-3)],
            [Z, Z],
            [(0.0, 0.0, 0.0), (1.0, 0.0, 0.0)],
        ),
        1e-10,
    ),
    "light hand behind a heavy arm": (
        serial(TURNS * 3, [(1e9, (0.1, 0.0, 0.0), 1e8), SOLID, (1e-3, (0.0, 0.01, 0.0), 1e-9)]),
        1e-3,
    ),
    "slow axis": (serial(TURNS * 4, [SOLID, SOLID, None, (1e-6, (0.1, 0.0, 0.0), 1e-12)]), 1e-8),
}


@pytest.mark.parametrize("xml, left", REGULAR.values(), ids=REGULAR)
def test_regular_robots_are_not_singular(xml, left):
    model, rng = dyn_ros.Model.from_urdf(xml), np.random.default_rng(0)
    pin = pinocchio.buildModelFromXML(xml)
    pair = peer.Pair(model, pin)
    pair.set_gravity((0.0, 0.0, 0.0))  # whose torques on the far body round too
    rtol = 20.0 * EPSILON / left
    for q in [model.neutral(), *(model.random_configuration(rng) for _ in range(30))]:
        rest, tau = np.zeros(model.nv), rng.uniform(-1.0, 1.0, model.nv)
        peer.close(dyn_ros.aba(model, pair.data, q, rest, tau), pair.aba(q, rest, tau), rtol)
        peer.close(dyn_ros.minverse(model, pair.data, [q])[0], pair.minverse(q), rtol)


@pytest.mark.parametrize("moment", [1.0, 1e-9, 1e-20])
def test_a_far_body_on_an_axis_of_the_root_is_exact(moment):
    """Where no digits are lost, none are missed: crba shows the inertia, aba divides by it."""
    model = dyn_ros.Model.from_urdf(
        serial(TURNS, [(1.0, (0.0, 0.0, 1e5), moment)], [Z], [(0.0, 0.0, 0.0)])
    )
    data = dyn_ros.Data(model)
    for angle in np.random.default_rng(0).uniform(-3.0, 3.0, 20):
        assert dyn_ros.crba(model, data, [angle]) == moment
        peer.close(dyn_ros.aba(model, data, [angle], [0.0], [2.0]), [2.0 / moment], 1e-15)


CANCELS = """<robot name="cancels"><link name="a"/><link name="b"><inertial><mass value="0"/>
    <inertia ixx="0" ixy="-1" ixz="1" iyy="-1" iyz="{iyz}" izz="{izz}"/></inertial></link>
  <joint name="j" type="continuous"><parent link="a"/><child link="b"/><axis xyz="{axis}"/></joint>
  </robot>"""


@pytest.mark.parametrize(
    "iyz, izz, axis",
    [(0, 0, "1 0 0"), (0, 1, "1 0 0"), (1, 0, "0 0 1"), (1, 1, "1 0 0"), (0, 1, "0 1 1")],
)
@pytest.mark.parametrize("mimic", [False, True], ids=["tree", "mimic"])
def test_positive_and_negative_moments_that_cancel_are_no_inertia(iyz, izz, axis, mimic):
    """Also if a rounding error remains of them, or if they are of a trace of zero or less."""
    xml = CANCELS.format(iyz=iyz, izz=izz, axis=axis)
    if mimic:
        xml = xml.replace("</robot>", MIMIC.replace("l1", "b").replace("j0", "j"))
    model = dyn_ros.Model.from_urdf(xml)
    for q in np.array([0.3]), np.full((9, 1), 0.3):
        data, one = dyn_ros.Data(model), np.ones_like(q)
        for name, more in {
            "aba": (one, one),
            "aba_derivatives": (one, one),
            "cholesky": (),
            "cholesky_solve": (one,),
            "minverse": (),
        }.items():
            with pytest.raises(np.linalg.LinAlgError, match="'j' moves no inertia: .* negative"):
                getattr(dyn_ros, name)(model, data, q, *more)


# --- armature


@pytest.mark.parametrize("name", ["aba", "minverse"])
@pytest.mark.parametrize("batched", [False, True], ids=["one", "batch"])
def test_armature_makes_singular_robots_regular(name, batched):
    for xml, _ in SINGULAR.values():
        model = dyn_ros.Model.from_urdf(xml)
        data, q = dyn_ros.Data(model), model.random_configuration(np.random.default_rng(0))
        model.armature = np.full(model.nv, 1e-3)
        assert not raised(name, model, data, np.array([q] * 9) if batched else q)


@pytest.mark.parametrize("mimic", [False, True], ids=["tree", "mimic"])
def test_a_negative_armature_is_named(mimic):
    xml = serial(TURNS * 2, [SOLID, (1.0, (0.1, 0.0, 0.0), 0.2)], [Z, Z])
    model = dyn_ros.Model.from_urdf(xml.replace("</robot>", MIMIC) if mimic else xml)
    data, q = dyn_ros.Data(model), np.array([0.1, 0.2])
    model.armature = [0.0, -0.1]  # of 0.21 kg m2: positive is what counts
    peer.close(dyn_ros.minverse(model, data, q), np.linalg.inv(dyn_ros.crba(model, data, q)), 1e-13)
    for armature, words in (
        (-1.0, "'j1' moves a negative inertia, -0.79 kg m2"),
        (-0.21, "'j1' moves no inertia: of the 0.42 kg m2"),
    ):
        model.armature = [0.0, armature]
        for name in "aba", "minverse":
            said = raised(name, model, data, q)
            assert words in said
            assert f"model.armature is negative ('j1': {armature:g}); set it to 0 or more" in said
    model.armature = [-100.0, 0.0]
    said = raised("aba", model, data, q)
    assert "'j0' moves a negative inertia" in said and "'j0': -100" in said


@pytest.mark.parametrize("batched", [False, True], ids=["one", "batch"])
def test_an_angle_too_large_to_turn_back_is_not_called_singular(batched):
    model = dyn_ros.Model.from_urdf(serial(TURNS * 2, [SOLID] * 2))
    q = np.array([0.3, 2e14])
    found = dyn_ros.minverse(model, dyn_ros.Data(model), [q] * 9 if batched else q)
    assert np.isnan(found).any()


STRETCHED = """<robot name="stretched"><link name="a"/><link name="b"/>
  <link name="c"><inertial><origin xyz="1 0 0"/><mass value="1"/>
    <inertia ixx="0" ixy="0" ixz="0" iyy="0" iyz="0" izz="0"/></inertial></link>
  <joint name="j0" type="continuous"><parent link="a"/><child link="b"/><axis xyz="0 0 1"/></joint>
  <joint name="j1" type="continuous"><parent link="b"/><child link="c"/><origin xyz="1 0 0"/>
    <axis xyz="0 0 1"/></joint></robot>"""


@pytest.mark.parametrize("threads", [1, 2, np.int8(2), np.uint64(2)])
def test_a_singular_state_in_the_second_half_of_a_batch_is_found(threads):
    """A point mass on two massless links: singular where they are in line."""
    model = dyn_ros.Model.from_urdf(STRETCHED)
    q = np.tile([0.3, 1.0], (300, 1))
    found = dyn_ros.minverse(model, dyn_ros.Data(model), q, threads=threads)
    assert np.isfinite(found).all()
    q[290] = [0.3, 0.0]
    with pytest.raises(np.linalg.LinAlgError, match="'j0' moves no inertia"):
        dyn_ros.minverse(model, dyn_ros.Data(model), q, threads=threads)


@pytest.mark.parametrize("row", [0, 255, 256, 511, 512, 599])
def test_a_singular_state_in_any_row_of_a_batch_is_found(row):
    model = dyn_ros.Model.from_urdf(STRETCHED)
    q = np.tile([0.3, 1.0], (600, 1))
    q[row] = [0.3, 0.0]
    assert "'j0' moves no inertia" in raised("minverse", model, dyn_ros.Data(model), q)


@pytest.mark.parametrize("count", [None, 9], ids=["one", "batch"])
def test_the_next_call_does_not_look_for_singularities_again(monkeypatch, count):
    model = dyn_ros.Model.from_urdf(STRETCHED)
    data = dyn_ros.Data(model)
    regular, stretched = (
        q if count is None else np.tile(q, (count, 1)) for q in np.array([[0.3, 1.0], [0.3, 0.0]])
    )
    expected = dyn_ros.minverse(model, data, regular).copy()
    assert "'j0' moves no inertia" in raised("minverse", model, data, stretched)
    monkeypatch.setattr(singular, "raise_if_singular", None)
    assert np.array_equal(dyn_ros.minverse(model, data, regular), expected)


@pytest.mark.parametrize("huge", [1e20, 1e200, -1e308])
def test_positions_too_large_to_compute_with_are_not_called_negative(huge):
    """NaN, or what remains of an inertia where only a rounding error does."""
    pair = peer.new_pair("panda")
    for k, joint in enumerate(pair.model.tree.joints[: pair.model.nq]):
        q = pair.state(1)[0]
        q[k] = huge
        try:
            found = dyn_ros.minverse(pair.model, pair.data, q)
        except np.linalg.LinAlgError as error:
            assert joint.kind == "prismatic"
            assert "rounding error" in str(error) and "nan" not in str(error)
        else:
            assert joint.kind == "prismatic" or np.isnan(found).any()
