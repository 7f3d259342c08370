# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Writing parameters into a URDF: numbers change, all else remains byte by byte."""

import difflib
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import dyn_ros
import peer

ROBOTS = sorted(path for path in peer.EXAMPLE_ROBOTS.rglob("*.urdf"))
BALL = 0.01 * np.eye(3)

ARM = """\
<?xml version='1.0' encoding='utf-8'?>
<!-- an arm; <inertial> is not read here -->
<robot name="arm">
\t<link name="base"/>
\t<joint name="shoulder" type="revolute">
\t\t<parent link="base"/><child link="upper"/>
\t\t<axis xyz="0 0 1"/>
\t\t<limit lower="-1" upper="1" effort="9" velocity="9"/> <!-- limits -->
\t</joint>
\t<link
\t\tname = 'upper'>
\t\t<!-- é -->
\t\t<inertial>
\t\t\t<mass   value = '2.50'/>
\t\t\t<origin rpy="0.1 0.2 0.3" xyz="0 0 1e-1" />
\t\t\t<inertia iyy="0.2" ixx="0.1" ixy="0" ixz="0.0" izz="2.5e-1" iyz="0"></inertia>
\t\t</inertial>
\t\t<visual><geometry><box size="1 1 1"/></geometry></visual>
\t</link>
\t<joint name="elbow" type="continuous"><parent link="upper"/><child link="lower"/>
\t\t<dynamics friction="0.5"/></joint>
\t<link name="lower"><visual><geometry><box size="1 1 1"/></geometry></visual></link>
</robot>
"""


def model_of(xml, root_joint=None, **options):
    return dyn_ros.Model.from_urdf(xml, root_joint, **options)


def scaled(model, seed=0):
    """The model with other physical parameters."""
    rng = np.random.default_rng(seed)
    p = model.inertial_parameters * rng.uniform(0.5, 2.0, (model.njoints, 1))
    model.inertial_parameters = p
    return model


def other(model, seed=0):
    """The model with inertias that have nothing to do with the former ones."""
    coordinates = np.random.default_rng(seed).normal(size=(model.njoints, 10))
    coordinates[:, 1:4] -= 1.0
    model.inertial_parameters = dyn_ros.from_log_cholesky(coordinates)
    return model


def same(model, expected, rtol=1e-12):
    """All parameters of two models are the same."""
    for a, b in zip(model.inertial_parameters, expected.inertial_parameters):
        for part in (slice(0, 1), slice(1, 4), slice(4, 10)):
            size = max(np.abs(b[part]).max(), 1e-300)
            if part.start == 1:  # m c is as exact as m |c|
                size = max(size, 1e-16 * b[0])
            peer.close(a[part], b[part], rtol, size)
    peer.close(model.damping, expected.damping, rtol)
    peer.close(model.friction, expected.friction, rtol)


def without_parameters(xml):
    """The elements of a description, without what is written."""

    def plain(element):
        tag = element.tag.rpartition("}")[2]
        children = [
            plain(child)
            for child in element
            if child.tag.rpartition("}")[2] not in ("inertial", "dynamics")
        ]
        attributes = {} if tag in ("inertial", "dynamics") else element.attrib
        return tag, attributes, children

    return plain(ElementTree.fromstring(xml.encode()))


def changed_lines(before, after):
    return [
        line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[0] in "+-"
    ]


@pytest.mark.parametrize("path", ROBOTS, ids=lambda path: path.stem)
def test_example_robots(path):
    data = path.read_bytes()
    try:
        options = {} if path.stem != "alex_psyonic_hands" else {"mimic": "ignore"}
        model = model_of(data, **options)
    except dyn_ros.UrdfError:
        with pytest.raises(dyn_ros.UrdfError):
            dyn_ros.write_urdf(data, model_of(ARM))
        return
    assert dyn_ros.write_urdf(data, model) == data
    rng = np.random.default_rng(0)
    if model.nv == 0:
        return
    model.damping, model.friction = rng.uniform(size=(2, model.nv))
    several = np.array(
        [joint.kind not in ("revolute", "continuous", "prismatic") for joint in model.tree.joints]
    )
    for i in np.flatnonzero(several):
        model.damping[model.idx_v[i] :][: model.nvs[i]] = 0.0
        model.friction[model.idx_v[i] :][: model.nvs[i]] = 0.0
    for change in (scaled, other):
        written = dyn_ros.write_urdf(data, change(model))
        again = model_of(written, **options)
        same(again, model)
        assert without_parameters(written.decode()) == without_parameters(data.decode())
        assert dyn_ros.write_urdf(written, again) == written


@pytest.mark.parametrize(
    "robot, root_joint, mimic",
    [
        ("talos_reduced", "floating", "project"),
        ("solo12", "planar", "project"),
        ("every_joint", None, "project"),
        ("every_joint", "floating", "ignore"),
        ("baxter", None, "project"),
        ("panda", None, "ignore"),
    ],
)
def test_any_root_joint_and_mimic_joints(robot, root_joint, mimic):
    xml = peer.urdf(robot)
    model = other(model_of(xml, root_joint, mimic=mimic), 3)
    rng = np.random.default_rng(4)
    for i, joint in enumerate(model.tree.joints):
        if model.nvs[i] == 1 and joint.mimic is None:
            model.damping[model.idx_v[i]], model.friction[model.idx_v[i]] = rng.uniform(size=2)
    written = dyn_ros.write_urdf(xml, model)
    same(model_of(written, root_joint, mimic=mimic), model)


def test_only_what_differs_changes():
    model = model_of(ARM)
    p = model.inertial_parameters.copy()
    for same_again in (2.0 * p, p):
        model.inertial_parameters = same_again
    assert dyn_ros.write_urdf(ARM, model) == ARM
    model.damping, model.friction = [0.25, 0.0], [0.0, 0.75]
    assert changed_lines(ARM, dyn_ros.write_urdf(ARM, model)) == [
        '- \t\t<limit lower="-1" upper="1" effort="9" velocity="9"/> <!-- limits -->',
        '+ \t\t<limit lower="-1" upper="1" effort="9" velocity="9"/>',
        '+ \t\t<dynamics damping="0.25"/> <!-- limits -->',
        '- \t\t<dynamics friction="0.5"/></joint>',
        '+ \t\t<dynamics friction="0.75"/></joint>',
    ]


def test_numbers_are_replaced_in_place():
    """The mass and one moment of inertia; the orientation of the axes remains."""
    model = model_of(ARM)
    p = model.inertial_parameters.copy()
    R = dyn_ros.engine.model.urdf.placement((0, 0, 0), (0.1, 0.2, 0.3))[:3, :3]
    body = dyn_ros.Inertia(3.5, [0.0, 0.0, 0.1], R @ np.diag([0.1, 0.2, 0.27]) @ R.T)
    p[0] = body.dynamic_parameters()
    model.inertial_parameters = p
    written = dyn_ros.write_urdf(ARM, model)
    assert "<mass   value = '3.5'/>" in written
    assert '<origin rpy="0.1 0.2 0.3" xyz="0 0 1e-1" />' in written
    old, new = (re.search("<inertia .*", xml)[0].split() for xml in (ARM, written))
    kept = [a == b for a, b in zip(old, new)]
    assert new[5].startswith('izz="0.2') and not kept[5]
    same(model_of(written), model)


def test_missing_elements_are_inserted_like_their_siblings():
    model = model_of(ARM)
    p = model.inertial_parameters.copy()
    p[1] = dyn_ros.Inertia(1.0, [0.0, 0.25, 0.0], BALL).dynamic_parameters()
    model.inertial_parameters = p
    assert changed_lines(ARM, dyn_ros.write_urdf(ARM, model))[1:] == [
        '+ \t<link name="lower"><inertial><origin xyz="0 0.25 0" rpy="0 0 0"/><mass value="1"/>'
        '<inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.01"/></inertial>'
        '<visual><geometry><box size="1 1 1"/></geometry></visual></link>'
    ]
    lines = ARM.replace('<link name="lower"><visual>', '<link name="lower">\n\t\t<visual>')
    assert changed_lines(lines, dyn_ros.write_urdf(lines, model)) == [
        "+ \t\t<inertial>",
        '+ \t\t\t<origin xyz="0 0.25 0" rpy="0 0 0"/>',
        '+ \t\t\t<mass value="1"/>',
        '+ \t\t\t<inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.01"/>',
        "+ \t\t</inertial>",
    ]
    visual = '<visual><geometry><box size="1 1 1"/></geometry></visual>'
    empty = ARM.replace(f'<link name="lower">{visual}</link>', '<link name="lower" />')
    assert changed_lines(empty, dyn_ros.write_urdf(empty, model)) == [
        '- \t<link name="lower" />',
        '+ \t<link name="lower" >',
        "+ \t\t<inertial>",
        '+ \t\t\t<origin xyz="0 0.25 0" rpy="0 0 0"/>',
        '+ \t\t\t<mass value="1"/>',
        '+ \t\t\t<inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.01"/>',
        "+ \t\t</inertial>",
        "+ \t</link>",
    ]
    for xml in (
        lines,
        empty,
        empty.replace('"lower" />', '"lower"></link>'),
        empty.replace('"lower" />', '"lower"><!-- > --></link>'),
        empty.replace('"lower" />', '"lower">\n\t</link>'),
    ):
        same(model_of(dyn_ros.write_urdf(xml, model)), model)
        windows = xml.replace("\n", "\r\n")
        written = dyn_ros.write_urdf(windows, model)
        assert written.count("\n") == written.count("\r\n")
        assert written.replace("\r", "") == dyn_ros.write_urdf(xml, model)
        one_line = re.sub(r"[\n\t]+", " ", xml)
        written = dyn_ros.write_urdf(one_line, model)
        assert "\n" not in written
        same(model_of(written), model)


def test_incomplete_inertials_are_completed():
    """An <inertial> without <origin>, without <inertia>, and an <origin> without xyz."""
    mass = '<inertial><mass value="2"/></inertial>'
    turned = '<inertial><mass value="2"/><origin rpy="0.3 0 0"/></inertial>'
    for inertial in (mass, turned):
        xml = f"""<robot name="r"><link name="a"/><link name="b">{inertial}</link>
          <joint name="j" type="continuous"><parent link="a"/><child link="b"/></joint></robot>"""
        model = model_of(xml)
        assert dyn_ros.write_urdf(xml, model) == xml
        body = dyn_ros.Inertia(2.0, [0.1, 0.2, 0.3], np.diag([1.0, 2.0, 2.5]))
        model.inertial_parameters = [body.dynamic_parameters()]
        same(model_of(dyn_ros.write_urdf(xml, model)), model)
        model.inertial_parameters = [np.zeros(10)]
        written = dyn_ros.write_urdf(xml, model)
        assert written == xml.replace('"2"', '"0"')


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16", "utf-16-be"])
def test_the_encoding_remains(encoding):
    declared = "utf-8" if encoding == "utf-8-sig" else encoding
    text = ARM.replace("'utf-8'", f"'{declared}'")
    data = text.encode(encoding)
    if encoding == "utf-16-be":
        data = b"\xfe\xff" + data
    model = scaled(model_of(data))
    written = dyn_ros.write_urdf(data, model)
    assert isinstance(written, bytes) and written[:2] == data[:2]
    same(model_of(written), model)
    text = dyn_ros.write_urdf(ARM, model)
    assert "é" in text
    assert written.decode("utf-16" if encoding == "utf-16-be" else encoding) == text.replace(
        "'utf-8'", f"'{declared}'"
    )


def test_namespaces_prefixes_and_references():
    body = ARM.partition("?>\n")[2].replace('"arm"', '"a&#38;m &lt;x>"')
    default = body.replace("<robot ", '<robot xmlns="http://example.org/urdf" ')
    prefixed = re.sub(r"<(/?)(\w)", r"<\1u:\2", ARM.partition("-->\n")[2].partition("?>")[0])
    prefixed = prefixed.replace("<u:robot ", '<u:robot xmlns:u="http://example.org/u" ')
    foreign = body.replace("<link\n", '<x:link xmlns:x="http://example.org/x"/><link\n').replace(
        "<!-- é -->", '<x:inertial xmlns:x="http://example.org/x"><x:mass value="9"/></x:inertial>'
    )
    spaced = prefixed.replace("http://example.org/u", "not a URI")
    for xml in (default, prefixed, spaced, foreign, "\ufeff \n" + body):
        model = other(model_of(xml))
        model.damping = [1.0, 2.0]
        written = dyn_ros.write_urdf(xml, model)
        same(model_of(written), model)
        assert without_parameters(written.strip("\ufeff \n")) == without_parameters(
            xml.strip("\ufeff \n")
        )
    assert written.startswith("\ufeff \n")


# --- bodies of several links, mimic joints, parts


def body_of_two(inertial, tool):
    return f"""<robot name="r"><link name="a"/><link name="b">{inertial}</link>
      <link name="tool">{tool}</link>
      <joint name="j" type="continuous"><parent link="a"/><child link="b"/></joint>
      <joint name="f" type="fixed"><origin xyz="0.1 0.2 0.3" rpy="0.4 0.5 0.6"/>
      <parent link="b"/><child link="tool"/></joint></robot>"""


def inertial(mass, moment):
    return (
        f'<inertial><mass value="{mass}"/><inertia ixx="{moment}" iyy="{moment}" '
        f'izz="{moment}" ixy="0" ixz="0" iyz="0"/></inertial>'
    )


def links_of(xml):
    return {
        frame.name: frame.inertia for frame in model_of(xml).tree.frames if frame.kind == "body"
    }


def test_the_link_of_the_joint_receives_the_difference():
    xml = body_of_two(inertial(2, 0.1), inertial(0.5, 0.01))
    model = model_of(xml)
    model.inertial_parameters = 1.1 * model.inertial_parameters
    written = dyn_ros.write_urdf(xml, model)
    same(model_of(written), model)
    assert links_of(written)["tool"] == links_of(xml)["tool"]
    assert inertial(0.5, 0.01) in written


@pytest.mark.parametrize(
    "own, tool",
    [
        ("", inertial(0.5, 0.01)),
        (inertial(2, 0.1), inertial(5, 0.2)),
        (inertial(0, 0), inertial(5, 0.2)),
        (inertial(0, 0.1), inertial(0, 0.2)),
    ],
)
def test_links_share_a_body_if_the_difference_is_not_physical(own, tool):
    xml = body_of_two(own, tool)
    model = model_of(xml)
    p = 0.2 * model.inertial_parameters
    model.inertial_parameters = (
        p if p[0, 0] else [[1.0, 0.0, 0.0, 0.0, 0.1, 0.0, 0.1, 0.0, 0.0, 0.1]]
    )
    written = dyn_ros.write_urdf(xml, model)
    same(model_of(written), model)
    for link in links_of(written).values():
        assert dyn_ros.is_physical(link.dynamic_parameters(), boundary=True)


def test_links_that_share_a_body_keep_their_places():
    xml = body_of_two(inertial(2, 0.1), inertial(5, 0.2))
    model = model_of(xml)
    model.inertial_parameters = 0.2 * model.inertial_parameters
    written = links_of(dyn_ros.write_urdf(xml, model))
    for name, link in links_of(xml).items():
        np.testing.assert_allclose(
            written[name].dynamic_parameters(), 0.2 * link.dynamic_parameters(), atol=1e-12
        )


def test_what_cannot_be_written_is_refused():
    xml = body_of_two(inertial(2, 0.1), inertial(0.5, 0.01))
    model = model_of(xml)
    for bad in ([-1.0, *np.ones(9)], [0.0, *np.ones(9)]):
        model.inertial_parameters = [bad]
        with pytest.raises(ValueError, match="the body of joint 'j' has mass .*model.is_physical"):
            dyn_ros.write_urdf(xml, model)
    with pytest.raises(ValueError, match="its link 'base' is not in the description; pass"):
        dyn_ros.write_urdf(xml, model_of(ARM))
    renamed = xml.replace('name="j"', 'name="k"')
    with pytest.raises(ValueError, match="its joint 'j' is not in the description; pass the URDF"):
        dyn_ros.write_urdf(renamed, model_of(xml))
    with pytest.raises(dyn_ros.UrdfError, match="mass of link"):
        dyn_ros.write_urdf(xml.replace('"2"', '"-2"'), model_of(xml))


def test_inertias_that_are_not_physical_are_written_if_their_mass_is_positive():
    xml = body_of_two(inertial(2, 0.1), inertial(0.5, 0.01))
    model = model_of(xml)
    model.inertial_parameters = [[3.0, *np.random.default_rng(0).normal(size=9)]]
    assert not model.is_physical.all()
    same(model_of(dyn_ros.write_urdf(xml, model)), model)


def test_payloads_are_written_on_request():
    xml = peer.urdf("panda")
    model = model_of(xml)
    model.set_payload("tool", "panda_hand", 1.5, [0.0, 0.1, 0.2], BALL)
    assert dyn_ros.write_urdf(xml, model) == xml
    scaled(model)
    same(model_of(dyn_ros.write_urdf(xml, model, payloads=True)), model)
    written = dyn_ros.write_urdf(xml, model)
    model.clear_payload()
    same(model_of(written), model)


@pytest.mark.parametrize("attribute", ["damping", "friction"])
@pytest.mark.parametrize("value", [-1e-9, np.nan, np.inf, 1e31])
def test_losses_that_a_urdf_cannot_express(attribute, value):
    model = model_of(ARM)
    getattr(model, attribute)[1] = value
    with pytest.raises(ValueError, match=re.escape(f"'elbow' has the {attribute} {value:g}, ")):
        dyn_ros.write_urdf(ARM, model)


def test_mimic_joints_keep_their_friction_unless_it_exceeds_that_of_all():
    xml = peer.urdf("every_joint")
    model = model_of(xml)
    rules = [joint for joint in model.tree.joints if joint.mimic]
    follower = rules[0]
    master = model.tree.joints[follower.mimic.joint]
    k = model.idx_v[follower.mimic.joint]
    text = re.sub(
        f'(<joint name="{follower.name}".*?)(</joint>)',
        r'\1<dynamics damping="2" friction="1"/>\2',
        xml,
        count=1,
        flags=re.DOTALL,
    )
    assert text != xml
    model = model_of(text)
    reflected = follower.mimic.multiplier**2 * 2.0
    assert model.damping[k] >= reflected
    for damping in (reflected + 3.0, 0.5 * reflected, 0.0):
        model.damping[k] = damping
        written = dyn_ros.write_urdf(text, model)
        same(model_of(written), model)
        read = {joint.name: joint.damping for joint in model_of(written).tree.joints}
        assert read[master.name] >= 0.0
        assert (read[follower.name] == 2.0) == (damping >= reflected)


def test_parts_of_a_robot_change_their_links_only():
    xml = peer.urdf("panda")
    whole = model_of(xml)
    for part, cut in (
        (
            whole.reduced({"panda_finger_joint1": 0.0}),
            lambda model: model.reduced({"panda_finger_joint1": 0.0}),
        ),
        (
            whole.chain("panda_link0", "panda_link5"),
            lambda model: model.chain("panda_link0", "panda_link5"),
        ),
    ):
        assert dyn_ros.write_urdf(xml, part) == xml
        p = 1.2 * part.inertial_parameters
        part.inertial_parameters, part.friction = p, np.full(part.nv, 0.7)
        same(cut(model_of(dyn_ros.write_urdf(xml, part))), part)


def test_a_link_without_mass_stays_so():
    xml = """<robot name="arm"><link name="base"/><link name="flange"/><link name="tool"><inertial>
      <mass value="2"/><inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>
      </link>
      <joint name="wrist" type="continuous"><parent link="base"/><child link="flange"/></joint>
      <joint name="bolt" type="fixed"><parent link="flange"/><child link="tool"/></joint></robot>"""
    model = scaled(model_of(xml))
    text = dyn_ros.write_urdf(xml, model)
    assert text.count("<inertial>") == 1 and '<link name="flange"/>' in text
    same(model_of(text), model)
