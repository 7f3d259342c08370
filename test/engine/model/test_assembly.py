# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Robots attached to others, and added frames: as Pinocchio's, as the URDF of both, identities."""

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pinocchio
import pytest

import dyn_ros
import peer

MASS, COM = 2.5, np.array([0.03, -0.02, 0.2])
INERTIA = np.array([[0.02, 0.003, -0.001], [0.003, 0.03, 0.002], [-0.001, 0.002, 0.025]])
LOCAL = dyn_ros.ReferenceFrame.LOCAL
PLACE = dyn_ros.SE3.exp([0.3, -0.2, 0.5, 0.7, -0.4, 1.1])
XYZ, RPY = "0.3 -0.2 0.5", "0.7 -0.4 1.1"
AXIS = "0.6 -0.3 0.5"
MOVING = ("revolute", "continuous", "prismatic", "spherical", "planar", "floating")
SETTINGS = ("velocity_limit", "effort_limit", "armature", "damping", "friction")


def urdf_placement():
    """That of the texts, as a matrix."""
    pin = pinocchio.rpy.rpyToMatrix(*map(float, RPY.split()))
    return dyn_ros.SE3(pin, np.array(XYZ.split(), float))


def joined(xml, other, link, kind, prefix):
    """The text of two robots as one."""
    one, two = ElementTree.fromstring(xml), ElementTree.fromstring(other)
    children = {joint.find("child").get("link") for joint in two.findall("joint")}
    (root,) = [name for each in two.findall("link") if (name := each.get("name")) not in children]
    for element in (*two.findall("link"), *two.findall("joint")):
        element.set("name", prefix + element.get("name"))
        for end in element.iterfind("*"):
            for key in ("link", "joint"):
                if end.get(key):
                    end.set(key, prefix + end.get(key))
        one.append(element)
    one.append(
        ElementTree.fromstring(
            f'<joint name="{prefix}{root}_joint" type="{kind}"><parent link="{link}"/>'
            f'<child link="{prefix}{root}"/><origin xyz="{XYZ}" rpy="{RPY}"/><axis xyz="{AXIS}"/>'
            '<limit lower="-1.5" upper="2" velocity="3" effort="4"/></joint>'
        )
    )
    return ElementTree.tostring(one, encoding="unicode")


def given(kind):
    """The arguments of append for the joint of `joined`."""
    options = {"joint": kind}
    if kind in ("revolute", "continuous", "prismatic"):
        options |= {"axis": list(map(float, AXIS.split())), "velocity_limit": 3, "effort_limit": 4}
    if kind in ("revolute", "prismatic"):
        options |= {"lower": -1.5, "upper": 2.0}
    return options


def same(model, other):
    """Two models with the same numbers, up to rounding."""
    for name in (
        "joint_names",
        "frame_names",
        "position_names",
        "velocity_names",
        "idx_q",
        "idx_v",
        "nqs",
        "nvs",
        "parents",
        "row_parents",
    ):
        assert getattr(model, name) == getattr(other, name)
    for name in ("lower", "upper", *SETTINGS, "gravity"):
        np.testing.assert_array_equal(getattr(model, name), getattr(other, name))
    np.testing.assert_array_equal(model._ints, other._ints)
    peer.close(model._floats, other._floats, 1e-14)
    assert model.total_mass == pytest.approx(other.total_mass, 1e-14)
    peer.close(
        model.base_inertia.dynamic_parameters(),
        other.base_inertia.dynamic_parameters(),
        1e-14,
        scale=1.0,
    )
    for ours, theirs in zip(model.tree.joints, other.tree.joints, strict=True):
        assert (ours.mimic is None) == (theirs.mimic is None)
        if ours.mimic:
            assert vars(ours.mimic) == vars(theirs.mimic)
    for ours, theirs in zip(model.tree.frames, other.tree.frames, strict=True):
        assert (ours.kind, ours.parent_frame) == (theirs.kind, theirs.parent_frame)


# ---------------------------------------------------------------------------- append


@pytest.mark.parametrize("kind", ["fixed", *(kind for kind in MOVING if kind != "spherical")])
@pytest.mark.parametrize("prefix", ["a/", "zz/"])
@pytest.mark.parametrize(
    "robot, root_joint, link, other",
    [
        ("panda", None, "panda_link8", "allegro_hand"),
        ("panda", None, "panda_link4", "every_joint"),
        ("ur5", None, "base_link", "limb"),
        ("every_joint", "floating", "pedestal", "panda"),
        ("every_joint", None, "slider", "every_joint"),
        ("limb", "planar", "claw", "limb"),
        ("solo12", "floating", "FL_FOOT", "limb"),
        ("solo12", "floating", "base_link", "solo12"),
    ],
)
def test_append_is_one_urdf_of_both(robot, root_joint, link, other, prefix, kind):
    """Names, order, limits, mimic joints, and all numbers of the kernels."""
    xml = joined(peer.urdf(robot), peer.urdf(other), link, kind, prefix)
    whole = dyn_ros.Model.from_urdf(xml, root_joint)
    first = dyn_ros.Model.from_urdf(peer.urdf(robot), root_joint)
    second = dyn_ros.Model.from_urdf(peer.urdf(other))
    same(first.append(second, link, urdf_placement(), prefix=prefix, **given(kind)), whole)


def order(model, pin):
    """Indices that bring Pinocchio's q and v, and its joints, into the model's order."""
    joints = [pin.getJointId(name) for name in model.joint_names]
    return (
        [k for i in joints for k in range(pin.idx_qs[i], pin.idx_qs[i] + pin.nqs[i])],
        [k for i in joints for k in range(pin.idx_vs[i], pin.idx_vs[i] + pin.nvs[i])],
        [i - 1 for i in joints],
    )


ROOTS = {
    "fixed": None,
    "spherical": pinocchio.JointModelSpherical,
    "floating": pinocchio.JointModelFreeFlyer,
    "prismatic": pinocchio.JointModelPX,
    "revolute": pinocchio.JointModelRZ,
}


@pytest.mark.parametrize("kind", ROOTS)
@pytest.mark.parametrize(
    "robot, root_joint, frame, other",
    [
        ("ur5", None, "tool0", "limb"),
        ("ur5", None, "base_link", "limb"),
        ("solo12", "floating", "FL_KFE", "limb"),
        ("limb", None, "bend", "ur5"),
    ],
)
def test_append_is_pinocchios(robot, root_joint, frame, other, kind):
    xml = peer.urdf(other)
    build = pinocchio.buildModelFromXML
    second = build(xml) if kind == "fixed" else build(xml, ROOTS[kind](), "the_joint")
    first = peer.pinocchio_model(peer.urdf(robot), root_joint)
    pin = pinocchio.appendModel(
        first, second, first.getFrameId(frame), pinocchio.SE3(PLACE.as_homogeneous())
    )
    axis = {"prismatic": (1, 0, 0), "revolute": (0, 0, 1)}.get(kind)
    model = dyn_ros.Model.from_urdf(peer.urdf(robot), root_joint).append(
        dyn_ros.Model.from_urdf(xml), frame, PLACE, kind, name="the_joint", axis=axis
    )
    data, pin_data = dyn_ros.Data(model), pin.createData()
    iq, iv, joints = order(model, pin)
    assert sorted(model.joint_names) == sorted(list(pin.names)[1:])
    pair = peer.Pair(model, peer.pinocchio_of(model))  # for a state
    q, v, a, tau = pair.state(1)
    q_pin, v_pin, a_pin, tau_pin = np.zeros(pin.nq), *np.zeros((3, pin.nv))
    q_pin[iq] = pair.to_pin_q(q)
    v_pin[iv], a_pin[iv], tau_pin[iv] = v, a, tau
    peer.close(
        dyn_ros.rnea(model, data, q, v, a), pinocchio.rnea(pin, pin_data, q_pin, v_pin, a_pin)[iv]
    )
    peer.close(
        dyn_ros.aba(model, data, q, v, tau), pinocchio.aba(pin, pin_data, q_pin, v_pin, tau_pin)[iv]
    )
    peer.close(dyn_ros.crba(model, data, q), pinocchio.crba(pin, pin_data, q_pin)[np.ix_(iv, iv)])
    pinocchio.framesForwardKinematics(pin, pin_data, q_pin)
    oMi = dyn_ros.forward_kinematics(model, data, q)[0]
    peer.close(oMi, [pin_data.oMi[i + 1].homogeneous for i in joints])
    for name, X in zip(model.frame_names, dyn_ros.frame_placements(model, data, q)):
        if pin.existFrame(name):
            peer.close(X, pin_data.oMf[pin.getFrameId(name)].homogeneous)
    assert set(model.frame_names) >= {each.name for each in list(pin.frames)[1:]} - {"universe"}


@pytest.mark.parametrize("kind", [None, *MOVING])
def test_append_keeps_the_settings_of_both(kind):
    first, second = (
        peer.new_pair(name, root).model
        for name, root in (("every_joint", "floating"), ("panda", None))
    )
    for n, model in enumerate((first, second)):
        rng = np.random.default_rng(n)
        for name in SETTINGS:
            getattr(model, name)[:] = rng.uniform(0.1, 1.0, model.nv)
        model.lower[:] = rng.uniform(-2.0, -1.0, model.nq)
        model.gravity = rng.normal(size=3)
        for frame in (0, 3, len(model.frame_names) - 1):
            model.set_payload(f"load {frame}", frame, MASS, COM, INERTIA)
    model = first.append(second, "antenna_link", PLACE, prefix="p/", **(given(kind)))
    np.testing.assert_array_equal(model.gravity, first.gravity)
    for part, prefix in ((first, ""), (second, "p/")):
        iv = [model.velocity_names.index(prefix + name) for name in part.velocity_names]
        iq = [model.position_names.index(prefix + name) for name in part.position_names]
        for name in SETTINGS:
            np.testing.assert_array_equal(getattr(model, name)[iv], getattr(part, name))
        np.testing.assert_array_equal(model.lower[iq], part.lower)
        assert {prefix + name for name in part.payloads} <= set(model.payloads)
    assert len(model.payloads) == len(first.payloads) + len(second.payloads)
    assert model.name == first.name
    total = first.total_mass + second.total_mass + second.base_inertia.mass
    assert model.total_mass == pytest.approx(total, 1e-14)


@pytest.mark.parametrize("kind", [None, *MOVING])
def test_a_payload_of_the_appended_robot_is_one_of_the_whole(kind):
    first, second = peer.new_pair("ur5").model, peer.new_pair("limb").model
    loaded = peer.new_pair("limb").model
    for name, frame in (("a", "stump"), ("b", "claw")):
        loaded.set_payload(name, frame, MASS, COM, INERTIA)
    model = first.append(loaded, "tool0", PLACE, **given(kind))
    other = first.append(second, "tool0", PLACE, **given(kind))
    for name, frame in (("a", "stump"), ("b", "claw")):
        other.set_payload(name, frame, MASS, COM, INERTIA)
    peer.close(model._floats, other._floats, 1e-14)
    model.clear_payload()
    other.clear_payload()
    np.testing.assert_array_equal(model._floats, other._floats)


def test_a_moving_joint_at_rest_is_a_fixed_one():
    first, second = peer.new_pair("ur5").model, peer.new_pair("every_joint").model
    fixed = first.append(second, "tool0", PLACE, prefix="p/")
    for kind in MOVING:
        moving = first.append(second, "tool0", PLACE, prefix="p/", **given(kind))
        i = moving.joint_index("p/base_joint")
        rest = moving.neutral()[moving.idx_q[i] :][: moving.nqs[i]]
        locked = moving.reduced({"p/base_joint": rest if len(rest) > 1 else rest[0]})
        assert locked.frame_names == fixed.frame_names
        peer.close(locked._floats, fixed._floats, 1e-14)
        np.testing.assert_array_equal(locked._ints, fixed._ints)


@pytest.mark.parametrize("root_joint", ["floating", "planar"])
def test_a_root_joint_of_the_appended_robot_connects_it(root_joint):
    first, limb = (peer.new_pair(name).model for name in ("ur5", "limb"))
    rooted = dyn_ros.Model.from_urdf(peer.urdf("limb"), root_joint)
    same(
        first.append(rooted, "tool0", PLACE, prefix="p/"),
        first.append(limb, "tool0", PLACE, root_joint, name="p/root_joint", prefix="p/"),
    )
    same(
        first.append(rooted, "tool0", PLACE, name="mine"),
        first.append(limb, "tool0", PLACE, root_joint, name="mine"),
    )


def test_a_locked_root_joint_connects_as_a_fixed_one():
    first, limb = (peer.new_pair(name).model for name in ("ur5", "limb"))
    rooted = dyn_ros.Model.from_urdf(peer.urdf("limb"), "planar").reduced(
        {"root_joint": [0.0, 0.0, 0.0]}
    )
    same(
        first.append(rooted, "tool0", PLACE, name="mine"),
        first.append(limb, "tool0", PLACE, name="mine"),
    )


def test_robots_of_robots():
    """A hand on an arm, on two of which a torso stands."""
    limb = peer.new_pair("limb").model
    arm = limb.append(limb, "claw", PLACE, "spherical", prefix="hand/")
    torso = limb.append(arm, "stump", PLACE, prefix="left/").append(arm, "stump", prefix="right/")
    assert torso.joint_names == (
        "bend",
        "stretch",
        "left/bend",
        "left/stretch",
        "left/hand/stump_joint",
        "left/hand/bend",
        "left/hand/stretch",
        "right/bend",
        "right/stretch",
        "right/hand/stump_joint",
        "right/hand/bend",
        "right/hand/stretch",
    )
    pair = peer.Pair(torso, peer.pinocchio_of(torso))
    q, v, a, _ = pair.state()
    peer.close(dyn_ros.rnea(torso, pair.data, q, v, a), pair.rnea(q, v, a))
    assert torso.append(torso, "claw", prefix="again/").njoints == 2 * torso.njoints


def test_the_robots_stay_as_they_are():
    first, second = peer.new_pair("every_joint").model, peer.new_pair("limb").model
    before = [each._floats.copy() for each in (first, second)]
    model = first.append(second, "base", prefix="p/")
    model.set_payload("load", "p/claw", MASS, COM, INERTIA)
    model.armature[:], model.lower[:], model.gravity = 3.0, -7.0, (0.0, 0.0, 1.0)
    for each, floats in zip((first, second), before):
        np.testing.assert_array_equal(each._floats, floats)
        assert not each.payloads and not (each.lower == -7.0).any()


def test_frames_and_placements_in_all_forms():
    first, second = peer.new_pair("ur5").model, peer.new_pair("limb").model
    expected = first.append(second, "tool0", PLACE)
    index = first.frame_index("tool0")
    for frame in (index, "tool0", "wrist_3_link-tool0_fixed_joint"):
        for place in (PLACE, PLACE.as_homogeneous(), PLACE.as_homogeneous().tolist()):
            same(first.append(second, frame, place), expected)
    same(first.append(second, "tool0"), first.append(second, "tool0", np.eye(4)))


MASSLESS = (
    '<robot name="m"><link name="a"/><link name="b"/><joint name="turn" type="continuous">'
    '<parent link="a"/><child link="b"/></joint></robot>'
)


def test_warnings_are_those_of_the_whole():
    bare = dyn_ros.Model.from_urdf(MASSLESS)
    limb = peer.new_pair("limb").model
    assert len(bare.warnings) == 1 and not limb.warnings
    assert not bare.append(limb, "b").warnings
    (text,) = limb.append(bare, "claw", prefix="p/").warnings
    assert '"p/turn" moves no mass' in text
    (text,) = limb.append(
        dyn_ros.Model.from_urdf('<robot name="x"><link name="l"/></robot>'),
        "claw",
        joint="spherical",
    ).warnings
    assert '"l_joint" moves no mass' in text
    text = peer.urdf("limb").replace('<limit lower="-2" upper="2.5" effort="40" velocity="3"/>', "")
    other = dyn_ros.Model.from_urdf(text)
    assert limb.append(other, "claw", prefix="p/").warnings == (f"limb: {other.warnings[0]}",)


# ---------------------------------------------------------------------------- bad input

BAD = {
    "no frame named 'hand'; available:.*tool0": {"frame": "hand"},
    "joint: expected None or one of 'fixed'.*'spherical'.*got 'ball'": {"joint": "ball"},
    "joint: expected None or one of.*got 3": {"joint": 3},
    r"axis: expected the axis of the revolute joint, such as \(0, 0, 1\), got None": {
        "joint": "revolute"
    },
    r"axis: expected a direction.*got \(0, 0, 0\)": {"joint": "revolute", "axis": (0, 0, 0)},
    r"axis: expected 3 finite numbers, got shape \(2,\)": {"joint": "prismatic", "axis": (0, 1)},
    "axis: expected None for joint='spherical', got.*only revolute, continuous, prismatic": {
        "joint": "spherical",
        "axis": (0, 0, 1),
    },
    "axis: expected None for joint=None, got": {"axis": (0, 0, 1)},
    "lower: expected None for joint='continuous', got -1": {
        "joint": "continuous",
        "axis": (0, 0, 1),
        "lower": -1,
    },
    "lower, upper: expected lower <= upper, got 2 and 1": {
        "joint": "revolute",
        "axis": (0, 0, 1),
        "lower": 2,
        "upper": 1,
    },
    r"lower, upper: expected positions of at most 1e\+14, got 1e\+15 and 1e\+16": {
        "joint": "revolute",
        "axis": (0, 0, 1),
        "lower": 1e15,
        "upper": 1e16,
    },
    "upper: expected a number, which can be infinite, got nan": {
        "joint": "revolute",
        "axis": (0, 0, 1),
        "upper": np.nan,
    },
    "upper: expected a number, which can be infinite, got 1000": {
        "joint": "revolute",
        "axis": (0, 0, 1),
        "upper": 10**400,
    },
    "lower: expected a number, which can be infinite, got 'low'": {
        "joint": "revolute",
        "axis": (0, 0, 1),
        "lower": "low",
    },
    "effort_limit: expected 0 or more, got -1; None is unlimited": {
        "joint": "revolute",
        "axis": (0, 0, 1),
        "effort_limit": -1,
    },
    "velocity_limit: expected None for joint='planar', got 1": {
        "joint": "planar",
        "velocity_limit": 1,
    },
    "name: expected a non-empty string, got ''": {"name": ""},
    "name: expected a non-empty string, got 3": {"name": 3},
    "name: 'ur5' has a frame named 'elbow_joint'; pass another name": {"name": "elbow_joint"},
    "name: 'limb' has a frame named 'p/bend'; pass another name": {"name": "p/bend"},
    "prefix: expected a string, got None": {"prefix": None},
    r"placement: expected a dyn_ros.SE3 or a homogeneous matrix.*\(3, 3\)": {
        "placement": np.eye(3)
    },
    "placement: expected a dyn_ros.SE3 or a homogeneous matrix.*R' R": {
        "placement": np.ones((4, 4)) * [[1], [1], [1], [0]] + np.diag([0, 0, 0, 1])
    },
    r"placement: expected a translation of at most 1e\+30 m, got 1e\+40": {
        "placement": dyn_ros.SE3(np.eye(3), (1e40, 0, 0))
    },
}


@pytest.mark.parametrize("words", BAD)
def test_bad_arguments_of_append(words):
    first, second = peer.pair("ur5").model, peer.pair("limb").model
    arguments = {"other": second, "frame": "tool0", "prefix": "p/"} | BAD[words]
    with pytest.raises(ValueError, match=words):
        first.append(**arguments)


def test_names_that_both_robots_have():
    limb = peer.pair("limb").model
    with pytest.raises(
        ValueError,
        match=re.escape(
            "prefix: both robots have frames named 'stump', 'bend', 'bone', 'stretch', 'tip', "
            "'claw_mount', 'claw'; pass another prefix, such as 'limb/'"
        ),
    ):
        limb.append(limb, "claw")
    twice = limb.append(limb, "claw", prefix="limb/")
    with pytest.raises(ValueError, match="name: 'limb' has a frame named 'limb/stump_joint'"):
        twice.append(limb, "claw", prefix="limb/")
    for model in (loaded := [peer.new_pair(name).model for name in ("ur5", "limb")]):
        model.set_payload("cup", 1, MASS, COM, INERTIA)
    with pytest.raises(ValueError, match="prefix: both robots have payloads named 'cup'; pass"):
        loaded[0].append(loaded[1], "tool0")


def test_a_second_root_joint():
    rooted = peer.pair("limb", "floating").model
    with pytest.raises(
        ValueError,
        match="joint: 'limb' is connected by its own root joint, "
        "'root_joint': expected None, got 'revolute'",
    ):
        peer.pair("ur5").model.append(rooted, "tool0", joint="revolute", axis=(0, 0, 1))


@pytest.mark.parametrize("other", [None, "limb", peer.urdf("limb")], ids=["None", "name", "text"])
def test_a_robot_that_is_none(other):
    with pytest.raises(TypeError, match="expected a dyn_ros.Model, got"):
        peer.pair("ur5").model.append(other, "tool0")


# ---------------------------------------------------------------------------- added frames


@pytest.mark.parametrize(
    "robot, root_joint, parent",
    [
        ("ur5", None, "tool0"),
        ("ur5", None, "base_link"),
        ("every_joint", "floating", "wrist"),
        ("panda", None, "panda_hand_joint"),
        ("ball_joints", "planar", "hand/claw"),
    ],
)
def test_an_added_frame_is_pinocchios(robot, root_joint, parent):
    pair = peer.new_pair(robot, root_joint)
    model = pair.model.with_frame("tip of the tool", parent, PLACE)
    frames = pair.pin.frames
    above = frames[model.frame_index(parent) + 1]
    number = pair.pin.addFrame(
        pinocchio.Frame(
            "tip of the tool",
            above.parentJoint,
            pair.pin.getFrameId(above.name),
            above.placement * pinocchio.SE3(PLACE.as_homogeneous()),
            pinocchio.OP_FRAME,
        )
    )
    pin_data, data = pair.pin.createData(), dyn_ros.Data(model)
    q, v, a, _ = pair.state(1)
    pinocchio.forwardKinematics(pair.pin, pin_data, pair.to_pin_q(q), pair.G @ v, pair.G @ a)
    pinocchio.updateFramePlacements(pair.pin, pin_data)
    assert model.frame_names == (*pair.model.frame_names, "tip of the tool")
    assert model.nframes == pair.model.nframes + 1
    peer.close(dyn_ros.frame_placements(model, data, q)[-1], pin_data.oMf[number].homogeneous)
    for frame in ("tip of the tool", model.nframes - 1):
        peer.close(
            dyn_ros.frame_acceleration(model, data, q, v, a, frame, LOCAL),
            pinocchio.getFrameAcceleration(pair.pin, pin_data, number, pinocchio.LOCAL).vector,
            scale=10.0,
        )
        J = (
            pinocchio.computeFrameJacobian(
                pair.pin, pin_data, pair.to_pin_q(q), number, pinocchio.LOCAL
            )
            @ pair.G
        )
        peer.close(dyn_ros.frame_jacobian(model, data, q, frame, LOCAL), J, scale=10.0)


def test_an_added_frame_changes_nothing_else():
    pair = peer.new_pair("every_joint", "floating")
    pair.model.set_payload("load", "tip", MASS, COM, INERTIA)
    pair.model.armature[:], pair.model.gravity = 0.3, (1.0, 2.0, 3.0)
    model = pair.model.with_frame("sole", "tip", PLACE)
    assert model.frame_names[:-1] == pair.model.frame_names
    assert model.payloads == ("load",)
    q, v, a, _ = pair.state()
    data = dyn_ros.Data(model)
    np.testing.assert_array_equal(
        dyn_ros.rnea(model, data, q, v, a), dyn_ros.rnea(pair.model, pair.data, q, v, a)
    )
    forces = dyn_ros.frame_forces(pair.model, pair.data, q, v, a)
    np.testing.assert_array_equal(dyn_ros.frame_forces(model, data, q, v, a)[:-1], forces)


def links(root_joint=None):
    """A limb with a sole as an added frame, and as a link of the description."""
    xml = peer.urdf("limb").replace(
        "</robot>",
        f'<link name="sole"/><joint name="sole_mount" type="fixed"><parent link="tip"/>'
        f'<child link="sole"/><origin xyz="{XYZ}" rpy="{RPY}"/></joint></robot>',
    )
    return (
        dyn_ros.Model.from_urdf(peer.urdf("limb"), root_joint).with_frame(
            "sole", "tip", urdf_placement()
        ),
        dyn_ros.Model.from_urdf(xml, root_joint),
    )


@pytest.mark.parametrize("root_joint", [None, "floating"])
def test_an_added_frame_is_a_link_without_inertia(root_joint):
    """Payloads, wrenches, constraints and Jacobians; forces are those at the joint of the link."""
    added, linked = links(root_joint)
    rng = np.random.default_rng(0)
    q, v, a = added.random_configuration(rng), *rng.normal(size=(2, added.nv))
    for model in (added, linked):
        model.set_payload("load", "sole", MASS, COM, INERTIA)
    data = dyn_ros.Data(added), dyn_ros.Data(linked)
    wrenches = {"sole": rng.normal(size=6)}
    for call in (
        lambda model, data: dyn_ros.rnea(
            model, data, q, v, a, model.external_forces(wrenches, q, "world")
        ),
        lambda model, data: dyn_ros.frame_jacobian(model, data, q, "sole", LOCAL, (1, 2, 3)),
        lambda model, data: dyn_ros.frame_hessian(model, data, q, "sole", LOCAL),
        lambda model, data: dyn_ros.frame_velocity_derivatives(model, data, q, v, "sole", LOCAL)[0],
        lambda model, data: (
            dyn_ros.constrained_dynamics(model, data, q, v, "sole", np.eye(6)[:, :1]).ddq
        ),
    ):
        peer.close(call(added, data[0]), call(linked, data[1]), 1e-12)
    tip = [
        dyn_ros.frame_force(model, each, q, v, a, "tip", wrenches).copy()
        for model, each in zip((added, linked), data)
    ]
    peer.close(tip[0], tip[1], 1e-12)
    X = urdf_placement().as_adjoint_wrench()
    peer.close(X @ dyn_ros.frame_force(added, data[0], q, v, a, "sole", wrenches), tip[0], 1e-12)


def test_parts_of_a_robot_keep_added_frames():
    model = peer.new_pair("ur5").model.with_frame("a", "tool0", PLACE).with_frame("b", "a", PLACE)
    model = model.with_frame("c", "shoulder_link", PLACE)
    data, q = dyn_ros.Data(model), peer.pair("ur5").state(1)[0]
    oMf = dyn_ros.frame_placements(model, data, q)
    part = model.reduced({"elbow_joint": q[2], "wrist_3_joint": q[5]})
    found = dyn_ros.frame_placements(part, dyn_ros.Data(part), np.delete(q, [2, 5]))
    peer.close(found, oMf)
    for root, tip, names in (
        ("upper_arm_link", "b", ("a", "b")),
        ("b", "shoulder_link", "abc"),
        ("upper_arm_link", "forearm_link", ()),
    ):
        chain = model.chain(root, tip)
        assert chain.frame_names[len(chain.frame_names) - len(names) :] == tuple(names)
        assert set("abc") & set(chain.frame_names) == set(names)
        own = [q[model.joint_index(name)] for name in chain.joint_names]
        found = dyn_ros.frame_placements(chain, dyn_ros.Data(chain), own)
        base = oMf[model.frame_index("tool0" if root == "b" else root)]
        for frame, X in zip(chain.tree.frames, found):
            if frame.kind != "joint":  # that of a reversed joint is on its other link
                peer.close(base @ X, oMf[model.frame_index(frame.name)], 1e-12)


def test_append_keeps_added_frames_last():
    first, second = links()[0], peer.new_pair("ur5").model.with_frame("mark", "tool0", PLACE)
    model = first.append(second, "sole", PLACE, name="joint").with_frame("last", "mark")
    assert model.frame_names[-3:] == ("sole", "mark", "last")
    data, q = dyn_ros.Data(model), model.random_configuration(np.random.default_rng(0))
    oMf = dyn_ros.frame_placements(model, data, q)
    at = dict(zip(model.frame_names, oMf))
    peer.close(at["world"], at["sole"] @ PLACE.as_homogeneous())
    peer.close(at["mark"], at["tool0"] @ PLACE.as_homogeneous())
    peer.close(at["last"], at["mark"])
    again = model.append(links()[0], "mark", prefix="p/")
    assert again.frame_names[-4:] == ("sole", "mark", "last", "p/sole")
    forces = dyn_ros.frame_forces(
        again, dyn_ros.Data(again), again.neutral(), np.zeros(again.nv), np.zeros(again.nv)
    )
    weight = (again.total_mass + again.base_inertia.mass) * 9.81
    assert forces[0, 2] == pytest.approx(weight, 1e-12)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("tool0", "tool0"), "name: there is a frame named 'tool0'; pass another name"),
        (("", "tool0"), "name: expected a non-empty string, got ''"),
        ((None, "tool0"), "name: expected a non-empty string, got None"),
        (("new", "hand"), "no frame named 'hand'; available:.*tool0"),
        (("new", 99), "parent_frame: expected a name or an index from 0 to .*, got 99"),
        (("new", "tool0", np.eye(3)), "placement: expected a dyn_ros.SE3 or a homogeneous matrix"),
    ],
)
def test_bad_arguments_of_with_frame(arguments, words):
    with pytest.raises(ValueError, match=words):
        peer.pair("ur5").model.with_frame(*arguments)


# ---------------------------------------------------------------------------- spherical joints


def on_ball(inertial="", joint="spherical"):
    """One body on a spherical joint."""
    base = dyn_ros.Model.from_urdf('<robot name="base"><link name="ground"/></robot>')
    body = dyn_ros.Model.from_urdf(f'<robot name="b"><link name="body">{inertial}</link></robot>')
    return base.append(body, "ground", joint=joint, name="ball")


def test_names_and_counts_of_a_spherical_joint():
    model = on_ball()
    assert (model.nq, model.nv, model.nqs, model.nvs) == (4, 3, (4,), (3,))
    assert model.position_names == ("ball/qx", "ball/qy", "ball/qz", "ball/qw")
    assert model.velocity_names == ("ball/angular_x", "ball/angular_y", "ball/angular_z")
    assert not np.isfinite([*model.lower, *model.upper, *model.velocity_limit]).any()


def test_random_rotations_of_a_spherical_joint():
    model, rng = on_ball(), np.random.default_rng(0)
    x, y, z, w = np.array([model.random_configuration(rng) for _ in range(4000)]).T
    for component in (1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)):
        assert abs(component.mean()) < 0.04 and abs(component.var() - 1 / 3) < 0.02


@pytest.mark.parametrize("batched", [False, True], ids=["one", "batch"])
def test_a_spherical_joint_requires_a_unit_quaternion(batched):
    pair = peer.pair("ball_joints")
    q, v, _, _ = pair.state()
    k = pair.model.idx_q[pair.model.joint_index("hand/stump_joint")]
    q[k : k + 4] *= 1.01
    with pytest.raises(
        ValueError,
        match=rf"q: expected a unit quaternion \(x y z w\) in q\[.*{k}:"
        rf"{k + 4}\] \(joint 'hand/stump_joint'\), got length "
        "1.01; normalize it",
    ):
        dyn_ros.nonlinear_effects(
            pair.model, pair.data, *([q[None], v[None]] if batched else [q, v])
        )


POINT = (
    '<inertial><origin xyz="0 0 {z}"/><mass value="{m}"/><inertia ixx="{i}" ixy="0" ixz="0" '
    'iyy="{i}" iyz="0" izz="{j}"/></inertial>'
)


@pytest.mark.parametrize(
    "z, m, i, j, is_singular",
    [
        (0.5, 2, 0, 0, True),
        (0.5, 2, 0.1, 0, True),
        (0.5, 2, 0.1, 0.2, False),
        (0, 2, 0, 0, True),
        (0, 2, 0.1, 0.1, False),
        (0, 0, 0, 0, True),
        (0, 0, 0.1, 0.1, False),
    ],
)
def test_a_spherical_joint_that_moves_no_inertia(z, m, i, j, is_singular):
    model = on_ball(POINT.format(z=z, m=m, i=i, j=j))
    data, zero = dyn_ros.Data(model), np.zeros(3)
    assert any("moves no" in text for text in model.warnings) == is_singular
    q = model.random_configuration(np.random.default_rng(1))
    if not is_singular:
        peer.close(
            dyn_ros.minverse(model, data, q), np.linalg.inv(dyn_ros.crba(model, data, q)), 1e-12
        )
        return
    for states in (q, np.tile(q, (9, 1))):
        with pytest.raises(np.linalg.LinAlgError, match="'ball/angular_z' moves no inertia"):
            dyn_ros.aba(
                model, data, states, zero + 0.0 * states[..., :3], zero + 0.0 * states[..., :3]
            )


def test_a_spherical_joint_cannot_be_reversed():
    model = peer.pair("ball_joints").model
    assert model.chain("claw", "hand/claw").joint_names == (
        "arm/stump_joint",
        "arm/bend",
        "arm/stretch",
        "hand/stump_joint",
        "hand/bend",
        "hand/stretch",
    )
    with pytest.raises(ValueError, match="spherical joint 'arm/stump_joint' from its child"):
        model.chain("arm/claw", "claw")


@pytest.mark.parametrize("position", [[0, 0, 0, 2], [0, 0, 0], 1.0])
def test_bad_position_of_a_locked_spherical_joint(position):
    with pytest.raises(ValueError, match="position of joint 'arm/stump_joint': expected"):
        peer.pair("ball_joints").model.reduced({"arm/stump_joint": position})


@pytest.mark.parametrize("kind", ["spherical", "ball"])
def test_a_description_has_no_spherical_joints(kind):
    text = peer.urdf("limb").replace('type="revolute"', f'type="{kind}"')
    with pytest.raises(dyn_ros.UrdfError, match=f"{kind}.*revolute"):
        dyn_ros.Model.from_urdf(text)
