# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""read_urdf: agreement with Pinocchio on real robots, and every bad input with its message."""

import math
import re

import numpy as np
import pytest

import dyn_ros
import peer
from dyn_ros.engine.kernel.lie import matrix_quaternion
from dyn_ros.engine.model.urdf import MAX_CHARACTERS, UrdfError, read_urdf
from dyn_ros.engine.spatial.se3 import SE3

INERTIAL = """<inertial><mass value="1"/>
  <inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>"""
LIMIT = '<limit lower="-1" upper="1" effort="2" velocity="3"/>'


def robot(*elements, name="r"):
    return f'<robot name="{name}">{"".join(elements)}</robot>'


def link(name, content=INERTIAL):
    return f'<link name="{name}">{content}</link>'


def links(names):
    return "".join(link(name) for name in names)


def joint(name, kind, parent, child, content=LIMIT):
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/>'
        f'<child link="{child}"/>{content}</joint>'
    )


def one_joint(kind, content=LIMIT):
    return robot(links("ab"), joint("j", kind, "a", "b", content))


def inertial(mass="1", ixx="1", ixy="0", iyy="1", izz="1", origin=""):
    return (
        f'<inertial>{origin}<mass value="{mass}"/><inertia ixx="{ixx}" ixy="{ixy}" ixz="0" '
        f'iyy="{iyy}" iyz="0" izz="{izz}"/></inertial>'
    )


# ---------------------------------------------------------------------------- Pinocchio

EXAMPLES = sorted(peer.EXAMPLE_ROBOTS.rglob("*.urdf"))
NO_ROBOT = {"ur3.urdf"}  # a placeholder without a name, which Pinocchio also rejects
ALL_ROBOTS = [peer.OWN_ROBOTS / "every_joint.urdf"] + [
    path for path in EXAMPLES if path.name not in NO_ROBOT
]
KINDS = {"BODY": "body", "JOINT": "joint", "FIXED_JOINT": "fixed_joint"}


def pinocchio_kind(joint):
    """Our word for a Pinocchio joint; "revolute" or "prismatic" for those about an axis."""
    name = joint.shortname().removeprefix("JointModel")
    if name.startswith(("FreeFlyer", "Planar")):
        return {"F": "floating", "P": "planar"}[name[0]]
    if name.startswith(("RUB", "RevoluteUnbounded")):
        return "continuous"
    return "prismatic" if name.startswith("P") else "revolute"


def pinocchio_axis(joint, kind):
    """The axis of a joint with one degree of freedom, from its motion subspace."""
    data = joint.createData()
    joint.calc(data, np.array([1.0, 0.0]) if kind == "continuous" else np.zeros(1))
    return np.ravel(data.S)[:3] if kind == "prismatic" else np.ravel(data.S)[3:]


def test_there_are_robots_to_compare_with():
    assert len(ALL_ROBOTS) > 60


@pytest.mark.parametrize("root_joint", [None, "floating", "planar"])
@pytest.mark.parametrize("path", ALL_ROBOTS, ids=lambda path: path.stem)
def test_tree_is_pinocchios(path, root_joint):
    xml = path.read_text(encoding="utf-8")
    tree = read_urdf(xml, root_joint, mimic="ignore")
    pin = peer.pinocchio_model(xml, root_joint)

    assert tree.name == pin.name
    assert [j.name for j in tree.joints] == list(pin.names)[1:]
    assert [j.parent + 1 for j in tree.joints] == list(pin.parents)[1:]
    assert [j.kind for j in tree.joints] == [pinocchio_kind(j) for j in list(pin.joints)[1:]]
    frames = list(pin.frames)[1:]
    assert [(f.name, f.kind, f.parent + 1) for f in tree.frames] == [
        (f.name, KINDS[str(f.type)], f.parentJoint) for f in frames
    ]
    for ours, theirs in zip(tree.frames, frames, strict=True):
        peer.close(ours.placement, theirs.placement.homogeneous, 1e-14)
        assert ours.parent_frame + 1 == theirs.parentFrame
    for ours, theirs in zip(tree.joints, list(pin.jointPlacements)[1:], strict=True):
        peer.close(ours.placement, theirs.homogeneous, 1e-14)
    for ours, theirs in zip(tree.joints, list(pin.joints)[1:], strict=True):
        if ours.kind in ("revolute", "continuous", "prismatic"):
            peer.close(ours.axis, pinocchio_axis(theirs, ours.kind), 1e-14)
    inertias = [j.inertia for j in tree.joints]
    for ours, theirs in zip([tree.base_inertia, *inertias], pin.inertias, strict=True):
        assert ours.mass == pytest.approx(theirs.mass, rel=1e-14)
        peer.close(ours.com, theirs.lever, 1e-12)
        peer.close(ours.rotational, theirs.inertia, 1e-12)


@pytest.mark.parametrize("path", ALL_ROBOTS, ids=lambda path: path.stem)
def test_links_have_their_inertias(path):
    """Pinocchio has those of links on fixed joints, at the joint; the sums are the bodies'."""
    xml = path.read_text(encoding="utf-8")
    tree = read_urdf(xml, "floating", mimic="ignore")
    theirs = list(peer.pinocchio_model(xml, "floating").frames)[1:]
    for ours in tree.frames:
        if ours.kind == "body" and tree.frames[ours.parent_frame].kind == "fixed_joint":
            fixed = theirs[ours.parent_frame].inertia
            assert ours.inertia.mass == fixed.mass
            peer.close(ours.inertia.com, fixed.lever, 1e-14)
            peer.close(ours.inertia.rotational, fixed.inertia, 1e-12)
    for n, joint in enumerate(tree.joints):
        links = [
            SE3.from_homogeneous(f.placement).act(f.inertia) for f in tree.frames if f.parent == n
        ]
        peer.close(sum(map(np.asarray, links)), np.asarray(joint.inertia), 1e-12)


@pytest.mark.parametrize("path", ALL_ROBOTS, ids=lambda path: path.stem)
def test_limits_are_pinocchios(path):
    xml = path.read_text(encoding="utf-8")
    pin = peer.pinocchio_model(xml)
    compared = 0
    tree = read_urdf(xml, mimic="ignore")
    for ours, theirs in zip(tree.joints, list(pin.joints)[1:], strict=True):
        if ours.kind in ("floating", "planar"):
            assert (ours.lower, ours.upper) == (-math.inf, math.inf)
            assert (ours.velocity, ours.effort) == (math.inf, math.inf)
            continue
        assert ours.velocity == pin.upperVelocityLimit[theirs.idx_v]
        assert ours.effort == pin.upperEffortLimit[theirs.idx_v]
        assert ours.damping == pin.damping[theirs.idx_v]
        assert ours.friction == pin.upperDryFrictionLimit[theirs.idx_v]
        lower, upper = pin.lowerPositionLimit[theirs.idx_q], pin.upperPositionLimit[theirs.idx_q]
        if ours.kind == "continuous":
            lower, upper = -math.inf, math.inf
        assert (ours.lower, ours.upper) == (lower, upper)
        compared += 1
    assert compared == sum(j.nv == 1 for j in list(pin.joints)[1:])


@pytest.mark.parametrize("path", ALL_ROBOTS, ids=lambda path: path.stem)
def test_warned_of_exactly_where_the_inertia_matrix_has_a_zero_row(path):
    xml = path.read_text(encoding="utf-8")
    tree = read_urdf(xml, mimic="ignore")
    pin = peer.pinocchio_model(xml)
    M = peer.pinocchio.crba(pin, pin.createData(), peer.pinocchio.neutral(pin))
    zero = {
        name
        for name, j in zip(list(pin.names)[1:], list(pin.joints)[1:], strict=True)
        if j.nv == 1 and M[j.idx_v, j.idx_v] == 0.0
    }
    warned = {warning.split('"')[1] for warning in tree.warnings if " moves no " in warning}
    assert warned == zero


# ---------------------------------------------------------------------------- what is read


def test_a_single_link_has_no_joint():
    tree = read_urdf(robot(link("base"), name="stone"))
    assert (tree.name, tree.joints, tree.warnings) == ("stone", (), ())
    assert [(f.name, f.kind, f.parent) for f in tree.frames] == [("base", "body", -1)]
    assert tree.base_inertia.mass == 1.0


def test_with_a_root_joint_the_base_moves():
    tree = read_urdf(robot(link("base")), "floating")
    assert [(j.name, j.kind, j.parent) for j in tree.joints] == [("root_joint", "floating", -1)]
    assert [f.name for f in tree.frames] == ["root_joint", "base"]
    assert (tree.joints[0].inertia.mass, tree.base_inertia.mass) == (1.0, 0.0)


def test_defaults_of_the_specification():
    j = read_urdf(one_joint("revolute", '<limit effort="2" velocity="3"/>')).joints[0]
    assert j.axis.tolist() == [1.0, 0.0, 0.0]
    assert j.placement.tolist() == np.eye(4).tolist()
    assert (j.lower, j.upper, j.effort, j.velocity) == (0.0, 0.0, 2.0, 3.0)


def test_damping_and_friction():
    dynamics = '<dynamics damping="0.5" friction="2"/>'
    j = read_urdf(one_joint("prismatic", LIMIT + dynamics)).joints[0]
    assert (j.damping, j.friction) == (0.5, 2.0)
    for content in ("", "<dynamics/>", '<dynamics damping="0" friction="-0"/>'):
        j = read_urdf(one_joint("revolute", LIMIT + content)).joints[0]
        assert (j.damping, j.friction) == (0.0, 0.0)


def test_a_planar_joint_has_no_damping():
    j = read_urdf(one_joint("planar", '<dynamics damping="2" friction="3"/>')).joints[0]
    assert (j.damping, j.friction) == (0.0, 0.0)


def test_mimic_joints_add_their_friction_to_their_masters():
    model = dyn_ros.Model.from_urdf(
        mimicking(
            '<dynamics damping="1" friction="2"/>',
            '<mimic joint="j1" multiplier="-3"/><dynamics damping="10" friction="20"/>',
            '<dynamics damping="7"/>',
        )
    )
    assert model.damping.tolist() == [1.0 + 9 * 10.0, 7.0]
    assert model.friction.tolist() == [2.0 + 3 * 20.0, 0.0]


@pytest.mark.parametrize("name", ["damping", "friction"])
def test_damping_and_friction_can_be_set(name):
    model = dyn_ros.Model.from_urdf(one_joint("revolute"), "planar")
    assert getattr(model, name).tolist() == [0.0] * 4
    array = getattr(model, name)
    setattr(model, name, [0, 1, 2, 3])
    assert array.tolist() == [0.0, 1.0, 2.0, 3.0]
    with pytest.raises(
        ValueError,
        match=rf"{name}: expected numbers of 0 or more, got -0.5 in "
        rf"{name}\[3\] \('j'\)",
    ):
        setattr(model, name, [0.0, 1.0, 0.0, -0.5])
    with pytest.raises(ValueError, match=f"{name}: expected 4 finite numbers, got"):
        setattr(model, name, [0.0, 1.0, np.nan, 0.0])
    with pytest.raises(ValueError, match=f"{name}: expected 4 finite numbers, got shape"):
        setattr(model, name, [0.0])
    assert array.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_rpy_turns_about_fixed_axes_roll_first():
    content = '<origin xyz="1 2 3" rpy="0.3 -0.4 0.5"/>' + LIMIT
    placement = read_urdf(one_joint("revolute", content)).joints[0].placement

    def turn(axis, angle):
        x = np.cross(axis, np.eye(3)).T  # the cross product as a matrix
        return np.eye(3) + math.sin(angle) * x + (1 - math.cos(angle)) * x @ x

    expected = turn([0, 0, 1], 0.5) @ turn([0, 1, 0], -0.4) @ turn([1, 0, 0], 0.3)
    peer.close(placement[:3, :3], expected, 1e-15)
    assert placement[:, 3].tolist() == [1.0, 2.0, 3.0, 1.0]
    assert placement[3].tolist() == [0.0, 0.0, 0.0, 1.0]


@pytest.mark.parametrize(
    "rpy", [(0.0, 0.0, 0.0), (1.0, -1.2, 3.0), (0.3, math.pi / 2, 0.0), (-2.0, -math.pi / 2, 0.7)]
)
def test_quaternions_turn_as_angles_do(rpy):
    words = " ".join(map(str, rpy))
    expected = read_urdf(one_joint("revolute", f'<origin rpy="{words}"/>' + LIMIT)).joints[0]
    R = expected.placement[:3, :3]
    x, y, z, w = 2.0 * matrix_quaternion(R)
    xml = one_joint("revolute", f'<origin xyz="1 2 3" quat_xyzw="{x} {y} {z} {w}"/>{LIMIT}')
    tree = read_urdf(xml.replace("<robot", '<robot version="1.1"'), strict=True)
    np.testing.assert_allclose(tree.joints[0].placement[:3, :3], R, atol=1e-15)
    assert tree.joints[0].placement[:3, 3].tolist() == [1.0, 2.0, 3.0]


def test_limits_of_version_1_2_are_read():
    more = 'velocity="3" acceleration="1" deceleration="2" jerk="9"'
    xml = one_joint("revolute", LIMIT.replace('velocity="3"', more))
    tree = read_urdf(xml.replace("<robot", '<robot version="1.2"'), strict=True)
    assert (tree.joints[0].lower, tree.joints[0].velocity) == (-1.0, 3.0)


@pytest.mark.parametrize("scale", ["2", "1e-200", "1e200"])
def test_axes_are_normalized(scale):
    j = read_urdf(one_joint("revolute", f'<axis xyz="0 -{scale} {scale}"/>{LIMIT}')).joints[0]
    peer.close(j.axis, [0, -math.sqrt(0.5), math.sqrt(0.5)], 1e-15)


def test_bytes_are_decoded_as_declared():
    for encoding in ("utf-8", "iso-8859-1", "utf-16"):
        xml = f'<?xml version="1.0" encoding="{encoding}"?>' + robot(link("größe"))
        assert read_urdf(xml.encode(encoding)).frames[0].name == "größe"
    assert read_urdf(robot(link("größe")).encode()).frames[0].name == "größe"
    for mark, encoding in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        assert read_urdf(mark + robot(link("größe")).encode(encoding)).frames[0].name == "größe"


def test_text_with_an_encoding_declaration_or_leading_space():
    xml = '<?xml version="1.0" encoding="iso-8859-1"?>' + robot(link("größe"))
    assert read_urdf(xml).frames[0].name == "größe"
    assert read_urdf("\n  \ufeff" + xml).frames[0].name == "größe"


def test_what_dynamics_does_not_need_never_hurts(capfd):
    odd = """
      <!-- <!DOCTYPE in a comment> -->
      <material/> <gazebo reference="nowhere"><link name=""/><joint/></gazebo>
      <transmission><joint name="j"/></transmission> <pr2_transmission/>
      <ros2_control><joint name="j"><param name="p">${unexpanded}</param></joint></ros2_control>
      <sensor name="s" update_rate="many"/> <made_up_tag value="nan"/>
      <other:joint xmlns:other="http://other.org" name="theirs"/>
    """
    body = (
        INERTIAL
        + """
      <visual><geometry/><material/></visual>
      <collision><origin xyz="what"/><geometry><capsule/></geometry></collision>
      <self_collision_checking/>
    """
    )
    fixed = joint(
        "k",
        "fixed",
        "b",
        "c",
        '<axis xyz="0 0 0"/><limit/><mimic joint="nobody"/><dynamics damping="a lot"/>',
    )
    moving = joint(
        "j",
        "revolute",
        "a",
        "b",
        LIMIT
        + """
      <safety_controller/><calibration rising=""/>""",
    )
    tree = read_urdf(robot(odd, link("a", body), links("bc"), moving, fixed))
    assert [j.name for j in tree.joints] == ["j"]
    assert tree.warnings == ()
    assert capfd.readouterr() == ("", "")


def test_undeclared_prefixes_are_read_as_by_urdfdom():
    xml = robot(
        one_joint("continuous", "<gazebo><sensor:camera größe:name='c'/></gazebo>")[16:-8],
        "<body:link/><gazebo xmlns:a='a'><a:b/></gazebo>",
    ).replace("<robot", '<robot xmlns:known="http://known.org" known:attribute="x"')
    assert [frame.name for frame in read_urdf(xml, strict=True).frames] == ["a", "j", "b"]


def test_comments_may_contain_two_hyphens():
    xml = one_joint("continuous").replace(
        "<link",
        "<!-- left -- arm --->\n<!-- <link name='x'/> -- größe -->\n"
        "<gazebo><![CDATA[<!-- a -- b]]></gazebo><!----><link",
        1,
    )
    assert [frame.name for frame in read_urdf(xml, strict=True).frames] == ["a", "j", "b"]
    with pytest.raises(UrdfError, match="line 3 of the URDF, before link"):
        read_urdf(xml.replace("<gazebo>", "<link/><gazebo>"))
    model = dyn_ros.Model.from_urdf(xml)
    assert dyn_ros.write_urdf(xml, model) == xml
    model.inertial_parameters = 2.0 * model.inertial_parameters
    written = dyn_ros.write_urdf(xml, model)
    assert "<!-- <link name='x'/> -- größe -->" in written
    assert (
        dyn_ros.Model.from_urdf(written).total_mass == 2.0 * read_urdf(xml).joints[0].inertia.mass
    )


def test_inertias_in_axes_of_a_quaternion_are_written():
    turned = inertial(ixx="0.9", origin='<origin xyz="1 2 3" quat_xyzw="0.6 0 0 0.8"/>')
    xml = one_joint("continuous").replace(INERTIAL, turned)
    model = dyn_ros.Model.from_urdf(xml)
    assert dyn_ros.write_urdf(xml, model) == xml
    parameters = 2.0 * model.inertial_parameters
    model.inertial_parameters = parameters
    written = dyn_ros.Model.from_urdf(dyn_ros.write_urdf(xml, model))
    np.testing.assert_allclose(written.inertial_parameters, parameters, rtol=1e-12)


def test_a_default_namespace_is_no_hindrance():
    xml = robot(link("a")).replace("<robot", '<robot xmlns="http://www.ros.org"')
    assert read_urdf(xml).frames[0].name == "a"


def test_fixed_joints_are_lumped():
    offset = '<origin xyz="1 0 0" rpy="0 0 1.5707963267948966"/>'
    body = inertial("2", ixx="1", iyy="2", izz="2.5", origin='<origin xyz="0 1 0"/>')
    tree = read_urdf(
        robot(
            link("a"),
            link("b", body),
            link("c", body),
            joint("j", "revolute", "a", "b"),
            joint("k", "fixed", "b", "c", offset),
        )
    )
    lumped = tree.joints[0].inertia
    assert lumped.mass == 4.0
    peer.close(lumped.com, [0.0, 0.5, 0.0], 1e-15)  # of (0 1 0) and (1 0 0) turned: (0 0 0)
    # c is turned by 90 degrees, so its x and y moments change places; both are 0.5 m off in y
    peer.close(lumped.rotational, np.diag([1 + 2 + 4 * 0.25, 2 + 1, 5 + 4 * 0.25]), 1e-15)
    assert tree.base_inertia.mass == 1.0


def test_a_chain_of_thousands_of_joints_is_walked():
    n = 5000
    xml = robot(
        "".join(f'<link name="{i}"/>' for i in range(n)),
        *(joint(f"{i}", "fixed", i, i + 1) for i in range(n - 1)),
    )
    assert len(read_urdf(xml).frames) == 2 * n - 1
    with pytest.raises(UrdfError, match="has 5,001 links; at most 5,000 are supported"):
        read_urdf(xml.replace("</robot>", '<link name="one more"/></robot>'))


def test_a_message_with_ten_long_names_is_short():
    xml = robot(*(link(f"{i}" + "a" * 400) for i in range(12)))
    with pytest.raises(
        UrdfError, match='12 root links: "0a.*\\.\\.\\.", "1a.* and 2 more'
    ) as error:
        read_urdf(xml)
    assert len(str(error.value)) < 1500


# ---------------------------------------------------------------------------- mimics


def mimicking(first="", second="", third=""):
    """Three joints in a row that each may have a mimic element."""
    return robot(
        links("abcd"),
        joint("j1", "revolute", "a", "b", LIMIT + first),
        joint("j2", "prismatic", "b", "c", LIMIT + second),
        joint("j3", "continuous", "c", "d", third),
    )


def test_mimic():
    tree = read_urdf(mimicking(second='<mimic joint="j1" multiplier="-2" offset="0.5"/>'))
    rule = tree.joints[1].mimic
    assert (rule.joint, rule.multiplier, rule.offset) == (0, -2.0, 0.5)
    assert tree.joints[0].mimic is None and tree.joints[2].mimic is None


def test_mimic_defaults():
    rule = read_urdf(mimicking(third='<mimic joint="j1"/>')).joints[2].mimic
    assert (rule.joint, rule.multiplier, rule.offset) == (0, 1.0, 0.0)


def test_mimic_chain_ends_at_the_joint_that_drives_all():
    tree = read_urdf(
        mimicking(
            first='<mimic joint="j2" multiplier="3" offset="1"/>',
            second='<mimic joint="j3" multiplier="-2" offset="0.5"/>',
        )
    )
    first, second = tree.joints[0].mimic, tree.joints[1].mimic
    assert (second.joint, second.multiplier, second.offset) == (2, -2.0, 0.5)
    assert (first.joint, first.multiplier, first.offset) == (2, -6.0, 3 * 0.5 + 1)


def test_ignored_mimics_are_free_and_not_looked_at():
    tree = read_urdf(
        mimicking(first='<mimic joint="j1"/>', third='<mimic joint="nobody"/>'), mimic="ignore"
    )
    assert [j.mimic for j in tree.joints] == [None] * 3


# ---------------------------------------------------------------------------- bad input

HOSTILE = '[<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;"><!ENTITY c SYSTEM "file:///etc/passwd">]'
XACRO = 'xmlns:xacro="http://www.ros.org/wiki/xacro"'
AXIS = '<axis xyz="{}"/>' + LIMIT

BAD = {
    # text
    "none": (None, "got NoneType"),
    "empty": ("", "is empty"),
    "empty bytes": (b"", "is empty"),
    "blank": (" \n\t", "is empty"),
    "a file name": ("/robots/arm.urdf", "'/robots/arm.urdf'.*from_urdf_file"),
    "prose": ("a robot", "not XML.*'a robot'"),
    "cut off": (robot(link("a"))[:-5], "not well-formed XML: unclosed token: line 2"),
    "control character": (robot(link("a\0")), "not well-formed XML"),
    "lone surrogate": (robot(link("\ud800")), "not well-formed XML"),
    "text after the end": (robot(link("a")) + "x", "junk after document element"),
    "two robots": (robot(link("a")) * 2, "junk after document element"),
    "SDF": ("<sdf version='1.6'/>", "<sdf>.*<robot>"),
    "too long": (robot(link("a"), " " * 20_000_000), "20.0 million characters; at most 5 million"),
    "too long bytes": (b"<" * (MAX_CHARACTERS + 1), "at most 5 million"),
    "DOCTYPE": ("<!DOCTYPE robot>" + robot(link("a")), "DOCTYPE.*remove it"),
    "DOCTYPE after comments": (
        f'<?xml version="1.0"?> <!-- x --> <?pi?> <!DOCTYPE robot {HOSTILE}>' + robot(link("&b;")),
        "DOCTYPE",
    ),
    "DOCTYPE in UTF-16": (
        f"<!DOCTYPE robot {HOSTILE}>{robot(link('&c;'))}".encode("utf-16"),
        "DOCTYPE",
    ),
    "unknown entity": (robot(link("&a;")), "undefined entity"),
    "not UTF-8": (b'<robot name="\xff"/>', "cannot be decoded as utf-8"),
    "unknown encoding": (
        b'<?xml version="1.0" encoding="elvish"?><robot/>',
        "cannot be decoded as elvish",
    ),
    "no text encoding": (
        b'<?xml version="1.0" encoding="zlib"?><robot/>',
        "cannot be decoded as zlib",
    ),
    **{
        f"encoding {encoding}": (
            f'<?xml version="1.0" encoding="{encoding}"?><robot name="\\q"/>'.encode(),
            f"cannot be decoded as {encoding}: not an encoding of XML",
        )
        for encoding in ("punycode", "idna", "unicode_escape", "Raw-Unicode_Escape", "undefined")
    },
    "xacro macro": (
        robot(link("a"), "<xacro:arm/>").replace("<robot", f"<robot {XACRO}"),
        "<xacro:arm> is not expanded; expand it with xacro .*ends in .xacro",
    ),
    "xacro macro of a namespace with a slash": (
        robot(link("a"), "<xacro:arm/>").replace("<robot", f'<robot {XACRO[:-1]}/"'),
        "<xacro:arm> is not expanded",
    ),
    "xacro undeclared": (robot(link("a"), "<xacro:arm/>"), "<xacro:arm> is not expanded"),
    "xacro name": (
        robot(link("${prefix}a")),
        r"\$\{prefix\}a.*expression of xacro; expand it with xacro",
    ),
    "xacro number": (
        one_joint("revolute", AXIS.format("$(arg x) 0 1")),
        'xyz of <axis> of joint "j" .*an expression of xacro; expand it',
    ),
    # elements and attributes
    "no robot name": ("<robot/>", 'robot "robot" has no links'),
    "no links": (robot(), 'robot "r" has no links.*the file that calls the macros'),
    "no link name": (
        "\n\n" + robot(link("a") + "\n<link/>\n"),
        r'<link> has no attribute name; add it \(line 5 of the URDF, after link "a"\)',
    ),
    "no name of the first link": (
        robot("<link/>", link("a")),
        r'<link> has no .* \(line 1 of the URDF, before link "a"\)',
    ),
    "empty link name": (
        robot(link(""), link("b")).encode("utf-16"),
        r'name of <link> is empty; set a value \(line 1 of the URDF, before link "b"\)',
    ),
    "no joint type": (
        robot(links("ab"), joint("j", "", "a", "b").replace('type=""', "")),
        'joint "j" has no attribute type',
    ),
    "no parent": (
        one_joint("fixed").replace('<parent link="a"/>', ""),
        'joint "j" has no <parent>',
    ),
    "no child link": (
        one_joint("fixed").replace('<child link="b"/>', "<child/>"),
        '<child> of joint "j" has no attribute link',
    ),
    "no mass": (robot(link("a", "<inertial/>")), '<inertial> of link "a" has no <mass>'),
    "no mass value": (
        robot(link("a", "<inertial><mass/></inertial>")),
        '<mass> of <inertial> of link "a" has no attribute value',
    ),
    "no ixy": (
        robot(link("a", inertial().replace('ixy="0"', ""))),
        'link "a" has no attribute ixy',
    ),
    "no axis xyz": (one_joint("revolute", "<axis/>" + LIMIT), '<axis> of joint "j" has no .* xyz'),
    **{
        f"quaternion {text}": (
            one_joint("fixed", f"<origin quat_xyzw='{text}'/>"),
            f'quat_xyzw of <origin> of joint "j" {message}',
        )
        for text, message in (
            ("0 0 0", "is '0 0 0'; expected 4 numbers"),
            ("0 0 0 0", "is '0 0 0 0'; expected a quaternion x y z w of norm 1"),
            ("0 0 0 1' rpy='0 0 0", "is beside rpy; expected one of the two"),
        )
    },
    "unsupported type": (
        one_joint("spherical"),
        "type of joint \"j\" is 'spherical'; supported: revolute, continuous, "
        "prismatic, floating, planar, fixed",
    ),
    "unknown type": (one_joint("unknown"), "'unknown'; supported"),
    # the tree
    "two links of a name": (robot(links("aa")), 'two links are named "a"'),
    "two joints of a name": (
        robot(links("abc"), joint("j", "fixed", "a", "b"), joint("j", "fixed", "b", "c")),
        'two joints are named "j"',
    ),
    "unknown parent": (
        robot(links("ab"), joint("j", "fixed", "x", "b")),
        'parent of joint "j" is the unknown link "x"; available: "a", "b"',
    ),
    "unknown child": (
        robot(links("ab"), joint("j", "fixed", "a", "x")),
        'child of joint "j" is the unknown link "x"',
    ),
    "two roots": (robot(links("abc"), joint("j", "fixed", "a", "b")), '2 root links: "a", "c"'),
    "no root": (
        robot(links("ab"), joint("j", "fixed", "a", "b"), joint("k", "fixed", "b", "a")),
        '"a" form a cycle',
    ),
    "cycle beside the tree": (
        robot(links("abc"), joint("j", "fixed", "b", "c"), joint("k", "fixed", "c", "b")),
        '(?!.*"a").*form a cycle',
    ),
    "joint from a link to itself": (
        robot(link("a"), joint("j", "fixed", "a", "a")),
        'the links "a" form a cycle.*"j"',
    ),
    "link with two parents": (
        robot(
            links("abc"),
            joint("j", "fixed", "a", "c"),
            joint("k", "fixed", "b", "c"),
            joint("l", "fixed", "a", "b"),
        ),
        'link "c" is the child of two joints, "j" and "k"',
    ),
    # numbers
    "zero axis revolute": (
        one_joint("revolute", AXIS.format("0 0 0")),
        'axis of joint "j" is zero',
    ),
    "zero axis continuous": (one_joint("continuous", AXIS.format("0 0 0")), "is zero"),
    "zero axis prismatic": (one_joint("prismatic", AXIS.format("0 -0 0")), "is zero"),
    "short axis": (one_joint("revolute", AXIS.format("0 1")), "'0 1'; expected 3 numbers"),
    "long axis": (one_joint("revolute", AXIS.format("0 1 0 0")), "'0 1 0 0'; expected 3 numbers"),
    "negative mass": (
        robot(link("a", inertial("-2"))),
        'mass of link "a" is -2; expected 0 or more',
    ),
    "negative damping": (
        one_joint("revolute", LIMIT + '<dynamics damping="-1"/>'),
        'damping of joint "j" is -1; expected 0 or more',
    ),
    "negative friction": (
        one_joint("prismatic", LIMIT + '<dynamics friction="-0.5"/>'),
        'friction of joint "j" is -0.5; expected 0 or more',
    ),
    # mimics
    "mimics itself": (mimicking(first='<mimic joint="j1"/>'), 'joint "j1" mimics itself'),
    "mimics an unknown joint": (
        mimicking(first='<mimic joint="k"/>'),
        'unknown joint "k"; available: "j1", "j2", "j3"',
    ),
    "mimics nothing": (mimicking(first="<mimic/>"), '<mimic> of joint "j1" has no attribute joint'),
    "mimics in a circle": (
        mimicking('<mimic joint="j2"/>', '<mimic joint="j3"/>', '<mimic joint="j1"/>'),
        '"j1", "j2", "j3" mimic each other',
    ),
    "mimics a circle": (
        mimicking('<mimic joint="j2"/>', '<mimic joint="j3"/>', '<mimic joint="j2"/>'),
        "mimic each other",
    ),
    **{
        f"mimics a {kind} joint": (
            robot(
                links("abc"),
                joint("j", "revolute", "a", "b", LIMIT + '<mimic joint="k"/>'),
                joint("k", kind, "b", "c"),
            ),
            f'joint "j" mimics the {kind} joint "k"',
        )
        for kind in ("fixed", "floating", "planar")
    },
    **{
        f"{kind} joint mimics": (
            robot(
                links("abc"),
                joint("j", kind, "a", "b", '<mimic joint="k"/>'),
                joint("k", "revolute", "b", "c"),
            ),
            f'{kind} joint "j" has a <mimic>',
        )
        for kind in ("floating", "planar")
    },
}


@pytest.mark.parametrize("xml, message", BAD.values(), ids=BAD)
def test_bad_description(xml, message, capfd):
    with pytest.raises(UrdfError, match=message):
        read_urdf(xml)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e999", "abc", "", "1_0", "0,5", "0x1"])
@pytest.mark.parametrize(
    "where, element",
    {
        "mass": '<mass value="{}"/>',
        "ixx": 'ixx="{}"',
        "iyz": 'iyz="{}"',
        "xyz": '<origin xyz="0 0 {}"/>',
        "rpy": '<origin rpy="{} 0 0"/>',
        "axis": '<axis xyz="1 {} 0"/>',
        "lower": 'lower="{}"',
        "upper": 'upper="{}"',
        "effort": 'effort="{}"',
        "velocity": 'velocity="{}"',
        "multiplier": 'multiplier="{}"',
        "offset": 'offset="{}"',
        "damping": 'damping="{}"',
        "friction": 'friction="{}"',
    }.items(),
)
def test_number_that_is_none(where, element, number):
    parts = {
        "mass": '<mass value="1"/>',
        "ixx": 'ixx="1"',
        "iyz": 'iyz="0"',
        "xyz": "<origin/>",
        "rpy": "<origin/>",
        "axis": '<axis xyz="1 0 0"/>',
        "lower": 'lower="-1"',
        "upper": 'upper="1"',
        "effort": 'effort="2"',
        "velocity": 'velocity="3"',
        "multiplier": 'multiplier="1"',
        "offset": 'offset="1"',
        "damping": 'damping="1"',
        "friction": 'friction="1"',
    }
    good = robot(
        links("abc"),
        joint("j", "revolute", "a", "b"),
        joint(
            "k",
            "revolute",
            "b",
            "c",
            '<origin/><axis xyz="1 0 0"/><mimic joint="j" multiplier="1" offset="1"/>'
            '<dynamics damping="1" friction="1"/>' + LIMIT,
        ),
    )
    read_urdf(good)
    bad = good.replace(parts[where], element.format(number), 1)
    assert bad != good
    with pytest.raises(UrdfError, match=f"expected (a finite|one|3) number.*|{where}") as caught:
        read_urdf(bad)
    named = {"mass": "<mass>", "axis": "<axis>"}.get(where, where)
    assert named in str(caught.value) and number in str(caught.value)


@pytest.mark.parametrize(
    "argument, value",
    [
        ("root_joint", "spherical"),
        ("root_joint", ""),
        ("root_joint", True),
        ("mimic", "maybe"),
        ("mimic", None),
    ],
)
def test_unknown_choice(argument, value):
    with pytest.raises(ValueError, match=f"{argument} is {value!r}; expected one of"):
        read_urdf(robot(link("a")), **{argument: value})


def test_a_joint_of_the_root_joints_name():
    xml = robot(links("ab"), joint("root_joint", "fixed", "a", "b"))
    assert len(read_urdf(xml).frames) == 3
    with pytest.raises(UrdfError, match='"root_joint", the name of the floating .*; rename it, or'):
        read_urdf(xml, "floating")


def test_a_link_of_the_root_joints_name_is_a_link():
    model = dyn_ros.Model.from_urdf(
        one_joint("continuous").replace('"a"', '"root_joint"'), "planar"
    )
    assert model.tree.frames[model.frame_index("root_joint")].kind == "body"


# ---------------------------------------------------------------------------- warnings


def massless(kind, leaf="", content=LIMIT):
    return robot(link("a"), link("b", leaf), joint("j", kind, "a", "b", content))


POINT = '<inertial>{}<mass value="1"/></inertial>'
ODD = {
    "not positive semidefinite": (
        robot(link("a", inertial(ixx="-0.25"))),
        'link "a" is not positive semidefinite: its smallest principal moment is -0.25 kg m',
    ),
    "indefinite by its products": (
        robot(link("a", inertial(ixy="3"))),
        "smallest principal moment is -2 kg m",
    ),
    "triangle inequality": (
        robot(link("a", inertial(ixx="4"))),
        'link "a" violates the triangle inequality: its largest principal moment 4 kg m.2 exceeds '
        "the sum of the others by 2 kg m",
    ),
    "beyond rounding": (robot(link("a", inertial(ixx="2.000003"))), "violates the triangle"),
    "negative beyond rounding": (robot(link("a", inertial(ixx="-0.000002"))), "semidefinite"),
    "small and negative": (
        robot(link("a", inertial(ixx="-2e-15", iyy="0", izz="0"))),
        "semidefinite",
    ),
    "unknown version": (
        robot(link("a")).replace("<robot", '<robot version="2.0"'),
        """version of robot "r" is '2.0'; known: 1.0, 1.1, 1.2: assumed to be 1.2""",
    ),
    "quaternion in version 1.0": (
        one_joint("continuous", '<origin quat_xyzw="0 0 0 1"/>'),
        'robot "r" has version 1.0, in which urdfdom ignores quat_xyzw.*set version="1.1"',
    ),
    "no inertia": (robot(link("a", POINT.format(""))), 'link "a" has no <inertia>'),
    "no limit revolute": (one_joint("revolute", ""), 'revolute joint "j" has no <limit>'),
    "no limit prismatic": (one_joint("prismatic", ""), 'prismatic joint "j" has no <limit>'),
    "no effort": (
        one_joint("revolute", '<limit velocity="1"/>'),
        '<limit> of joint "j" has no effort',
    ),
    "no velocity": (
        one_joint("revolute", '<limit effort="1"/>'),
        '<limit> of joint "j" has no velocity',
    ),
    "limits crossed": (
        one_joint("revolute", LIMIT.replace('upper="1"', 'upper="-2"')),
        'joint "j" has a lower limit -1 above its upper limit -2',
    ),
    "planar axis": (
        one_joint("planar", '<axis xyz="1 0 0"/>'),
        'axis of planar joint "j" is 1 0 0 and is ignored.*x-y plane.*origin',
    ),
    "planar damping": (
        one_joint("planar", '<dynamics damping="2"/>'),
        'damping of planar joint "j" is 2 and is ignored; set model.damping',
    ),
    "floating friction": (
        one_joint("floating", '<dynamics damping="0" friction="2"/>'),
        'friction of floating joint "j" is 2 and is ignored; set model.friction',
    ),
    "planar axis down": (one_joint("planar", '<axis xyz="0 0 -1"/>'), "is 0 0 -1 and is ignored"),
    "planar axis zero": (one_joint("planar", '<axis xyz="0 0 0"/>'), "is 0 0 0 and is ignored"),
    "two inertials": (robot(link("a", INERTIAL * 2)), 'link "a" has more than one <inertial>'),
    "massless revolute": (massless("revolute"), 'joint "j" moves no mass'),
    "massless prismatic": (massless("prismatic", inertial("0")), 'joint "j" moves no mass'),
    "massless floating": (massless("floating"), 'joint "j" moves no mass'),
    "massless planar": (massless("planar"), 'joint "j" moves no mass'),
    "mass on the axis": (
        massless("revolute", POINT.format('<origin xyz="7 0 0"/>')),
        'joint "j" moves no inertia about its axis',
    ),
    "floating point mass": (
        massless("floating", POINT.format("")),
        'joint "j" moves no rotational inertia',
    ),
    "planar point mass": (
        massless("planar", POINT.format("")),
        'joint "j" moves no rotational inertia',
    ),
    "planar rod": (
        massless("planar", inertial(ixx="1", iyy="1", izz="0")),
        'joint "j" moves no rotational inertia',
    ),
    "floating rod": (
        massless("floating", inertial(ixx="0", iyy="1", izz="1")),
        'joint "j" moves no rotational inertia',
    ),
    "negative about its axis": (
        massless("revolute", inertial("0.5", ixx="-0.5", origin='<origin xyz="0 1 0"/>')),
        'joint "j" moves no inertia about its axis',
    ),
    **{
        f"rod about its axis, turned by {rpy}": (
            massless(
                "revolute",
                inertial(ixx="0", iyy="1", izz="1", origin=(f'<origin xyz="0 0 0" rpy="{rpy}"/>')),
                LIMIT + f'<axis xyz="{axis}"/>',
            ),
            'joint "j" moves no inertia about its axis',
        )
        for rpy, axis in (
            ("0.3 0 0.7", f"{math.cos(0.7)!r} {math.sin(0.7)!r} 0"),
            ("0 0.4 0", f"{math.cos(0.4)!r} 0 {-math.sin(0.4)!r}"),
            ("0 0 2", f"{math.cos(2.0)!r} {math.sin(2.0)!r} 0"),
            ("0 1 0", f"{math.cos(1.0)!r} 0 {-math.sin(1.0)!r}"),
        )
    },
    "massless to the end": (
        robot(
            link("a"),
            link("b", ""),
            link("c", ""),
            joint("j", "revolute", "a", "b"),
            joint("k", "fixed", "b", "c"),
        ),
        'joint "j" moves no mass',
    ),
}


@pytest.mark.parametrize("xml, message", ODD.values(), ids=ODD)
def test_odd_description_warns_and_strict_refuses(xml, message):
    assert any(re.search(message, warning) for warning in read_urdf(xml).warnings)
    with pytest.raises(UrdfError, match="strict=True: .*" + message):
        read_urdf(xml, strict=True)


def test_limits_of_odd_descriptions():
    unlimited = (-math.inf, math.inf, math.inf, math.inf)
    for xml, expected in (
        (ODD["no limit revolute"][0], unlimited),
        (ODD["limits crossed"][0], (-math.inf, math.inf, 3.0, 2.0)),
        (ODD["no effort"][0], (0.0, 0.0, 1.0, math.inf)),
        (one_joint("continuous", LIMIT), (-math.inf, math.inf, 3.0, 2.0)),
        (one_joint("continuous", ""), unlimited),
    ):
        j = read_urdf(xml).joints[0]
        assert (j.lower, j.upper, j.velocity, j.effort) == expected


@pytest.mark.parametrize(
    "xml",
    [
        one_joint("planar", '<axis xyz="0 0 2"/>'),
        one_joint("planar", ""),
        one_joint("continuous", ""),
        one_joint("floating", ""),
        massless("revolute", inertial(ixx="0", iyy="0", izz="0", origin='<origin xyz="0 0 1"/>')),
        massless("revolute", inertial("0")),
        massless("prismatic", inertial(ixx="0", iyy="0", izz="0")),
        massless("planar", inertial(ixx="0", iyy="1", izz="1")),
        robot(link("a", inertial(ixx="2"))),  # just within the triangle inequality
        robot(link("a", inertial(ixx="2.000001"))),  # rounding
        robot(link("a", inertial(ixx="-1e-20", iyy="0", izz="0"))),  # next to nothing
        robot(link("a", inertial(ixx="0", iyy="1", izz="1"))),  # a thin rod
        robot(link("a", "")),
        robot(link("a"), link("b", ""), joint("j", "fixed", "a", "b")),
    ],
)
def test_sound_description_does_not_warn(xml):
    assert read_urdf(xml, strict=True).warnings == ()


def test_a_mimicking_joint_lends_its_master_mass():
    xml = robot(
        links("ac"),
        link("b", ""),
        joint("j", "revolute", "a", "b"),
        joint("k", "revolute", "a", "c", LIMIT + '<mimic joint="j"/>'),
    )
    assert read_urdf(xml).warnings == ()
    assert len(read_urdf(xml, mimic="ignore").warnings) == 1


def test_a_massless_pair_of_mimics_warns_once():
    xml = robot(
        link("a"),
        link("b", ""),
        link("c", ""),
        joint("j", "revolute", "a", "b"),
        joint("k", "revolute", "a", "c", LIMIT + '<mimic joint="j"/>'),
    )
    assert [w.split('"')[1] for w in read_urdf(xml).warnings] == ["j"]


def test_long_names_are_shortened_in_messages():
    name = "x" * 100_000
    with pytest.raises(UrdfError, match=r'joint "j" is the unknown link "x+\.\.\.') as error:
        read_urdf(
            '<robot name="r"><link name="a"/><joint name="j" type="fixed"><parent link="a"/>'
            f'<child link="{name}"/></joint></robot>'
        )
    assert len(str(error.value)) < 1000
