# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Parameters of a node in this process: initial values, limits, and what rejects a change."""

import math

import pytest

pytest.importorskip("rclpy", reason="no ROS: run `make test`")

import rclpy
from rclpy.parameter import Parameter

from dyn_ros.nodes.base.node_parameters import SPECS as ROBOT_SPECS
from dyn_ros.nodes.base.node_parameters import Parameters, Spec, name_parameters

SPECS = (
    Spec("rate", 2.0, "A rate.", limits=(0.0, 10.0)),
    Spec("kind", "one", "A choice.", choices=("one", "two")),
    Spec("pose", [0.0, 0.0, 1.0], "Numbers without limits.", size=3),
    Spec("gravity", [0.0, -9.81], "Numbers with limits.", size=2, limits=(-10.0, 20.0)),
    Spec("armature", Parameter.Type.DOUBLE_ARRAY, "Any number of them.", limits=(0.0, 5.0)),
    Spec("names", Parameter.Type.STRING_ARRAY, "Names."),
)
DEFAULTS = {
    "rate": 2.0,
    "kind": "one",
    "pose": [0.0, 0.0, 1.0],
    "gravity": [0.0, -9.81],
    "armature": [],
    "names": [],
}
BAD = [
    ("rate", 10.001, "rate"),
    ("rate", -0.001, "rate"),
    ("rate", math.nan, "rate"),
    ("kind", "three", "kind: expected one of one, two, but got 'three'"),
    ("pose", [1.0, 2.0], "pose: expected 3 numbers, but got 2"),
    ("pose", [1.0, 2.0, math.nan], "pose: expected finite numbers, but got"),
    ("pose", [math.inf, 2.0, 3.0], "pose: expected finite numbers, but got"),
    ("gravity", [0.0, 20.001], "gravity: expected numbers from -10 to 20, but got"),
    ("gravity", [-10.001, 0.0], "gravity: expected numbers from -10 to 20, but got"),
    ("armature", [0.0, 5.001], "armature: expected numbers from 0 to 5, but got"),
    ("armature", [-0.001], "armature: expected numbers from 0 to 5, but got"),
]
WRONG_TYPE = [
    ("rate", "fast"),
    ("kind", 1.0),
    ("gravity", ["up", "down"]),
    ("armature", ["a"]),
    ("names", [1.0]),
]
GOOD = [
    ("rate", 0.0),
    ("rate", 10.0),
    ("kind", "two"),
    ("pose", [-1e300, 0.0, 1e300]),
    ("gravity", [-10.0, 20.0]),
    ("gravity", [1.0, 2.0]),
    ("armature", [0.0, 5.0, 2.5]),
    ("armature", []),
    ("names", ["a", "b"]),
]


@pytest.fixture
def make(client):
    """Make a node's parameters, with initial values."""
    nodes = []

    def make(accept=lambda values, changed: None, **initial):
        values = {"start_type_description_service": False, **initial}
        node = rclpy.create_node(  # without topics and services
            "parameters",
            context=client.context,
            enable_rosout=False,
            start_parameter_services=False,
            parameter_overrides=[Parameter(name, value=value) for name, value in values.items()],
        )
        nodes.append(node)
        changes = []
        parameters = Parameters(node, SPECS, accept, changes.append)
        return node, parameters, changes

    yield make
    for node in nodes:
        node.destroy_node()


def set_one(node, name, value):
    [result] = node.set_parameters([Parameter(name, value=value)])
    return result


def stored(node, name):
    value = node.get_parameter(name).value
    return value if isinstance(value, (float, str)) else list(value)


def test_without_initial_values_all_have_their_defaults(make):
    node, parameters, changes = make()
    assert parameters.values == DEFAULTS and not parameters.faults and not changes
    assert {name: stored(node, name) for name in DEFAULTS} == DEFAULTS


@pytest.mark.parametrize("name, value", GOOD)
def test_a_good_initial_value_is_used(make, name, value):
    node, parameters, _ = make(**{name: value} if value != [] else {})
    assert parameters.values == {**DEFAULTS, name: value} and not parameters.faults
    assert stored(node, name) == value


def test_one_empty_string_is_an_empty_array(make):
    _, parameters, _ = make(names=[""])
    assert parameters.values["names"] == [] and not parameters.faults


@pytest.mark.parametrize(
    "name, value, why", [*BAD, *((name, value, f"{name}: ") for name, value in WRONG_TYPE)]
)
def test_a_bad_initial_value_is_reported_and_the_default_used(make, name, value, why):
    node, parameters, changes = make(**{name: value})
    assert list(parameters.faults) == [name] and why in parameters.faults[name]
    assert parameters.values == DEFAULTS and not changes
    assert parameters.changes == 0
    assert set_one(node, name, DEFAULTS[name] or [1.0 if name == "armature" else "a"]).successful
    assert not parameters.faults and len(changes) == 1


@pytest.mark.parametrize("name, value", GOOD)
def test_a_good_change_is_made(make, name, value):
    node, parameters, changes = make()
    changed = {
        "rate": 1.0,
        "kind": "two",
        "pose": [3.0] * 3,
        "gravity": [3.0] * 2,
        "armature": [3.0],
        "names": ["c"],
    }
    assert all(
        result.successful
        for result in node.set_parameters(
            [Parameter(each, value=other) for each, other in changed.items()]
        )
    )
    before = len(changes)
    kind = SPECS[list(DEFAULTS).index(name)].default
    given = Parameter(name, kind if isinstance(kind, Parameter.Type) else None, value)
    [result] = node.set_parameters([given])
    assert result.successful, result.reason
    assert parameters.values == {**changed, name: value}
    assert [list(each) for each in changes[before:]] == [[name]]


@pytest.mark.parametrize(
    "name, value, why",
    [*BAD, *((name, value, "Wrong parameter type") for name, value in WRONG_TYPE)],
)
def test_a_bad_change_is_rejected_and_changes_nothing(make, name, value, why):
    node, parameters, changes = make()
    result = set_one(node, name, value)
    assert not result.successful and why in result.reason
    assert parameters.values == DEFAULTS and not changes and parameters.changes == 0
    assert stored(node, name) == DEFAULTS[name]


def test_a_change_that_does_not_fit_the_others_is_rejected(make):
    seen = []

    def accept(values, changed):
        seen.append((values, set(changed)))
        raise ValueError("two with this rate")

    node, parameters, changes = make(accept)
    result = set_one(node, "kind", "two")
    assert not result.successful and result.reason == "two with this rate"
    assert seen == [({**DEFAULTS, "kind": "two"}, {"kind"})]
    assert parameters.values == DEFAULTS and not changes


@pytest.mark.parametrize(
    "text, expected",
    [
        ('a; correct it, or set mimic="ignore"', "a; correct it, or set mimic: ignore"),
        ("rejected because of strict=True: a", "rejected because of strict: true: a"),
        ("a mesh; name its folder in mesh_paths=", "a mesh"),
        ("a; lock them with model.reduced", "a; lock them with the parameter locked_joints"),
        (
            "a; record it, or lock it with lock=",
            "a; record it, or lock it with the parameter locked_joints",
        ),
        ("a; use Model.from_urdf_file to read a file", "a"),
        ("a; rename it, or name it with columns=", "a; rename it"),
    ],
)
def test_messages_name_parameters_in_place_of_arguments(text, expected):
    assert name_parameters(ROBOT_SPECS, text) == expected
