# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Robots of urdf_parser_py: read like a text, with the same errors, and returned by models."""

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from urdf_parser_py import urdf

import dyn_ros
from dyn_ros.engine.model.urdf import UrdfError, read_urdf

ROOT = Path(__file__).resolve().parents[3]
OWN = [*ROOT.glob("dyn_ros/robots/*.urdf"), *ROOT.glob("test/robots/*.urdf")]
REFUSED = {
    "every_joint.urdf",  # an incomplete transmission
    "icub.urdf",  # materials without the file of a texture
    "icub_reduced.urdf",
    "pr2.urdf",  # transmissions of PR2
    "romeo_laas_small.urdf",  # a texture without a file
    "ur3.urdf",  # no name
}
"""Descriptions that the parser of urdf_parser_py refuses."""


def descriptions():
    """The files of the repository, and of example-robot-data if it is installed."""
    folder = next(Path(sys.prefix).glob("**/example-robot-data/robots"), None)
    more = folder.rglob("*.urdf") if folder else ()
    return sorted({path.name: path for path in (*OWN, *more)}.values())


def values(tree):
    """All values of a tree, comparable."""
    return (
        tree.name,
        tree.warnings,
        tree.base_inertia.dynamic_parameters().tolist(),
        [
            [getattr(joint, name) for name in ("name", "kind", "parent", "lower", "upper")]
            + [getattr(joint, name) for name in ("velocity", "effort", "damping", "friction")]
            + [joint.placement.tolist(), joint.axis.tolist()]
            + [joint.inertia.dynamic_parameters().tolist(), joint.mimic and vars(joint.mimic)]
            for joint in tree.joints
        ],
        [
            [frame.name, frame.kind, frame.parent, frame.placement.tolist(), frame.parent_frame]
            + frame.inertia.dynamic_parameters().tolist()
            for frame in tree.frames
        ],
    )


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in descriptions()])
def test_a_robot_is_read_like_its_text(path):
    text = path.read_bytes()
    try:
        expected = values(read_urdf(text))
    except UrdfError as error:
        expected = str(error)
    robots = []
    if path.name not in REFUSED:
        robots.append(urdf.URDF.from_xml_string(text))
    if not isinstance(expected, str):
        robots.append(read_urdf(text).robot)
    for robot in robots:
        try:
            assert values(read_urdf(robot)) == expected
        except UrdfError as error:
            assert str(error) == expected


TEXT = """<robot name="r">
  <link name="base"/>
  <link name="a"><inertial>
    <origin xyz="0 0 0.1" rpy="0 0.2 0"/><mass value="2"/>
    <inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/>
  </inertial></link>
  <link name="b"><inertial><mass value="1"/></inertial></link>
  <joint name="j" type="revolute"><origin xyz="0 0 1"/><axis xyz="0 1 0"/>
    <parent link="base"/><child link="a"/>
    <limit lower="-1" upper="1" velocity="3"/><dynamics damping="0.5"/></joint>
  <joint name="k" type="continuous"><parent link="a"/><child link="b"/>
    <mimic joint="j" multiplier="2"/></joint>
</robot>"""


@pytest.fixture
def robot():
    """A robot with all records, as the reader makes them."""
    return read_urdf(TEXT).robot


def test_records_are_those_of_urdf_parser_py(robot):
    assert type(robot) is urdf.Robot and robot.name == "r"
    assert [link.name for link in robot.links] == ["base", "a", "b"]
    assert robot.get_chain("base", "b", links=False) == ["j", "k"]
    base, a, _ = robot.links
    j, k = robot.joints
    assert base.inertial is None
    assert type(a.inertial) is urdf.Inertial and a.inertial.mass == 2.0
    assert type(a.inertial.inertia) is urdf.Inertia and a.inertial.inertia.ixx == 1.0
    assert type(a.inertial.origin) is urdf.Pose and a.inertial.origin.rpy == [0.0, 0.2, 0.0]
    assert (j.type, j.parent, j.child, j.axis) == ("revolute", "base", "a", [0.0, 1.0, 0.0])
    assert (j.limit.lower, j.limit.velocity, j.limit.effort) == (-1.0, 3.0, None)
    assert (j.dynamics.damping, j.dynamics.friction) == (0.5, 0.0)
    assert (k.mimic.joint, k.mimic.multiplier, k.mimic.offset) == ("j", 2.0, 0.0)
    assert (k.limit, k.origin, k.axis, j.mimic) == (None, None, None, None)


def test_missing_values_are_assumed_with_the_same_warnings(robot):
    assert read_urdf(robot).warnings == read_urdf(TEXT).warnings
    assert "effort: assumed to be inf" in read_urdf(robot).warnings[0]


@pytest.mark.parametrize(
    "change, message",
    [
        (
            lambda r: setattr(r.joints[0], "type", "unknown"),
            """type of joint "j" is 'unknown'; supported: revolute, continuous, prismatic, """
            "floating, planar, fixed",
        ),
        (lambda r: setattr(r.joints[0], "type", None), 'joint "j" has no attribute type; add it'),
        (
            lambda r: setattr(r.joints[0], "parent", "x"),
            'parent of joint "j" is the unknown link "x"; available: "base", "a", "b"',
        ),
        (lambda r: setattr(r.joints[0], "child", None), 'joint "j" has no <child>; add it'),
        (
            lambda r: setattr(r.joints[0], "axis", [0.0, 1.0]),
            """xyz of <axis> of joint "j" is '0.0 1.0'; expected 3 numbers""",
        ),
        (
            lambda r: setattr(r.joints[0], "axis", np.zeros(3)),
            'axis of joint "j" is zero; set a direction, such as 0 0 1',
        ),
        (
            lambda r: setattr(r.joints[0].limit, "upper", np.nan),
            """upper of <limit> of joint "j" has 'nan'; expected a finite number, such as 0.5""",
        ),
        (
            lambda r: setattr(r.joints[0].dynamics, "damping", -1.0),
            'damping of joint "j" is -1; expected 0 or more',
        ),
        (
            lambda r: setattr(r.joints[1].mimic, "joint", "k"),
            'joint "k" mimics itself; name another joint',
        ),
        (
            lambda r: setattr(r.joints[1].mimic, "multiplier", 1e10),
            """multiplier of <mimic> of joint "k" has '10000000000.0'; at most 1e+09 is""",
        ),
        (
            lambda r: setattr(r.links[1].inertial, "mass", None),
            '<inertial> of link "a" has no <mass>; add it',
        ),
        (
            lambda r: setattr(r.links[1].inertial, "mass", -2),
            'mass of link "a" is -2; expected 0 or more',
        ),
        (
            lambda r: setattr(r.links[1].inertial, "mass", 10**400),
            """value of <mass> of <inertial> of link "a" has '10000""",
        ),
        (
            lambda r: setattr(r.links[1].inertial.inertia, "ixx", True),
            """ixx of <inertia> of <inertial> of link "a" has 'True'; expected a finite number""",
        ),
        (
            lambda r: setattr(r.links[1].inertial.origin, "xyz", [[0.0], [1.0, 2.0], 3.0]),
            """xyz of <origin> of <inertial> of link "a" is '[0.0] [1.0, 2.0] 3.0'; expected 3 """,
        ),
        (
            lambda r: setattr(r.links[1].inertial, "origin", 5.0),
            "<origin> of <inertial> of link 'a' is 5.0; expected a urdf_parser_py.urdf.Pose",
        ),
        (
            lambda r: setattr(r.links[1], "inertial", 5.0),
            "<inertial> of link 'a' is 5.0; expected a urdf_parser_py.urdf.Inertial",
        ),
        (
            lambda r: r.joints.append(None),
            "<joint> is None; expected a urdf_parser_py.urdf.Joint",
        ),
        (lambda r: setattr(r.links[1], "name", None), "<link> has no attribute name; add it"),
        (lambda r: setattr(r.links[1], "name", " "), "name of <link> is empty; set a value"),
        (
            lambda r: setattr(r.links[1], "name", "base"),
            'two links are named "base"; names must differ',
        ),
        (lambda r: r.links.clear(), 'robot "r" has no links; expected at least one'),
        (lambda r: r.joints.pop(), '2 root links: "base", "b"; '),
    ],
)
def test_errors_are_those_of_a_text(robot, change, message):
    change(robot)
    with pytest.raises(UrdfError) as raised:
        dyn_ros.Model.from_urdf(robot)
    assert str(raised.value).startswith(message)


def test_without_a_name_it_is_called_robot(robot):
    robot.name = None
    model = dyn_ros.Model.from_urdf(robot)
    assert model.name == "robot" and "<robot> has no name: assumed to be robot" in model.warnings
    with pytest.raises(UrdfError, match="rejected because of strict=True"):
        dyn_ros.Model.from_urdf(robot, strict=True)


def test_numbers_of_every_type_keep_their_digits(robot):
    third = np.float32(1.0) / np.float32(3.0)
    robot.links[1].inertial.mass = third
    robot.joints[0].origin.xyz = np.array([third, 0.1, 1e-300])
    robot.joints[0].axis = (np.float64(0.3), 0, 1)
    robot.joints[0].limit.upper = np.int64(2)
    joint = dyn_ros.Model.from_urdf(robot).tree.joints[0]
    assert joint.inertia.mass == float(third)
    assert joint.placement[:3, 3].tolist() == [float(third), 0.1, 1e-300]
    assert joint.upper == 2.0 and joint.axis[0] == 0.3 / np.hypot(0.3, 1.0)


def test_links_in_its_lists_count_and_its_shapes_do_not(robot):
    link = urdf.Link("c", inertial=urdf.Inertial(3.0, urdf.Inertia(1.0, 0.0, 0.0, 1.0, 0.0, 1.0)))
    link.visuals.append("no shape")
    robot.links.append(link)  # not with add_link
    robot.joints.append(urdf.Joint("fix", "b", "c", "fixed", limit="no limit"))
    robot.materials.append(None)
    assert dyn_ros.Model.from_urdf(robot).total_mass == 6.0


# --- the robot of a model


def test_a_model_returns_a_copy_of_what_it_read(robot):
    model = dyn_ros.Model.from_urdf(robot, root_joint="floating", mimic="ignore")
    robot.links[1].inertial.mass = 7.0
    first = model.urdf_robot
    assert first.link_map["a"].inertial.mass == 2.0
    first.link_map["a"].inertial.mass = 5.0
    assert model.urdf_robot.link_map["a"].inertial.mass == 2.0
    assert dyn_ros.Model.from_urdf(first).total_mass == 6.0
    assert [joint.name for joint in first.joints] == ["j", "k"]  # without the root joint


@pytest.mark.parametrize(
    "change",
    [
        copy.copy,
        copy.deepcopy,
        lambda model: pickle.loads(pickle.dumps(model)),
        lambda model: model.reduced({"j": 0.3}),
        lambda model: model.chain("base", "a"),
        lambda model: model.with_frame("tip", "b"),
    ],
)
def test_parts_and_copies_of_a_model_have_the_robot_that_was_read(change):
    model = dyn_ros.Model.from_urdf(TEXT)
    model.set_payload("cup", "b", 1.0, np.zeros(3), np.eye(3))
    model.inertial_parameters = 1.1 * model.inertial_parameters
    assert values(read_urdf(change(model).urdf_robot)) == values(read_urdf(TEXT))


def test_the_robot_of_a_written_description_has_the_inertias_of_the_model():
    model = dyn_ros.Model.from_urdf(TEXT)
    model.inertial_parameters = 1.5 * model.inertial_parameters
    written = dyn_ros.Model.from_urdf(dyn_ros.write_urdf(TEXT, model)).urdf_robot
    assert written.link_map["a"].inertial.mass == 3.0


def test_models_of_two_descriptions_have_none():
    model = dyn_ros.Model.from_urdf(TEXT)
    assert model.append(model, "b", prefix="hand/").urdf_robot is None
    assert dyn_ros.Model.from_urdf(TEXT).urdf_robot is not None


def test_it_is_imported_when_a_description_is_read():
    code = (
        "import sys, dyn_ros\n"
        "dyn_ros.Model, dyn_ros.rnea\n"
        "print('urdf_parser_py' in sys.modules)\n"
        "dyn_ros.Model.from_urdf_file(sys.argv[1])\n"
        "print('urdf_parser_py.urdf' in sys.modules)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(ROOT / "dyn_ros/robots/arm7.urdf")],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.stdout.split() == ["False", "True"], result.stderr
    assert result.stderr == ""
