# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Names in parameter files and arguments that no node has."""

from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="no ROS: run `make test`")

from rclpy.node import Node
from rclpy.parameter import Parameter

from dyn_ros.nodes.base.node_parameters import Parameters, Spec
from dyn_ros.nodes.base.unused_parameters import unknown_parameters, unused_sections

CONFIG = Path(__file__).parents[3] / "config"
NODES = ["/dyn_ros", "/dynamics", "/centroidal", "/vereshchagin", "/observer"]


@pytest.fixture
def make(client):
    nodes = []

    def make(name, specs, **overrides):
        node = Node(
            name,
            context=client.context,
            parameter_overrides=[Parameter(key, value=value) for key, value in overrides.items()],
        )
        node.parameters = Parameters(
            node,
            [Spec(spec, 1.0, "A number.") for spec in specs],
            lambda values, changed: None,
            lambda changed: None,
        )
        nodes.append(node)
        return node

    yield make
    for node in nodes:
        node.destroy_node()


def test_a_misspelt_parameter_is_named_with_what_was_meant(make):
    node = make("dynamics", ["gravity", "markers.rate"], gravty=2.0, gravity=2.0, nonsense=1.0)
    first, second = unknown_parameters([node])
    assert first == "'gravty' is no parameter of /dynamics, and ignored; did you mean gravity?"
    assert second == "'nonsense' is no parameter of /dynamics, and ignored"


def test_standard_parameters_are_not_reported(make):
    standard = {"use_sim_time": True, "start_type_description_service": True}
    qos = {"qos_overrides./joint_states.subscription.depth": 10}
    assert list(unknown_parameters([make("dynamics", ["gravity"], **standard, **qos)])) == []


def test_a_parameter_for_all_nodes_needs_to_exist_in_one(make):
    owner = make("dyn_ros", ["gravity"], gravity=2.0, command=1.0)
    member = make("dynamics", ["command"], gravity=2.0, command=1.0)
    assert list(unknown_parameters([owner, member])) == []


def test_a_parameter_of_another_node_in_the_process_is_sent_there(make):
    owner, member = make("dyn_ros", ["gravity"]), make("dynamics", ["command"], gravity=2.0)
    [text] = unknown_parameters([owner, member])
    assert text == "'gravity' is no parameter of /dynamics, and ignored; set it for /dyn_ros"


@pytest.mark.parametrize(
    "sections, nodes, expected",
    [
        (["/**"], ["/dynamics"], None),
        (["/**/dynamics"], ["/dynamics"], None),
        (["/**/dynamics"], ["/left/arm/dynamics"], None),
        (["/*/dynamics"], ["/left/dynamics"], None),
        (["dynamics"], ["/dynamics"], None),
        (["/*/dynamics"], ["/dynamics"], "no section is for /dynamics; it has /*/dynamics"),
        (["/left/dynamics"], ["/dynamics"], "no section is for /dynamics; it has /left/dynamics"),
        (["/left/dynamics", "/right/dynamics"], ["/right/dynamics"], None),
        (["/left/dynamics", "/**/dyn_ros"], ["/dyn_ros", "/dynamics"], None),
        (
            ["/dynamcis"],
            ["/dynamics"],
            "the section '/dynamcis' is for no node of this process; did you mean '/dynamics'?",
        ),
        (
            ["/a/dynamcis", "/**/dyn_ros"],
            ["/a/dyn_ros", "/a/dynamics"],
            "did you mean '/a/dynamics'?",
        ),
        (["/arm_driver"], ["/dynamics"], "no section is for /dynamics; it has /arm_driver"),
        (["/arm_driver", "/dynamics"], ["/dynamics"], None),
        (["/**", "/dynamcis"], ["/dynamics"], "did you mean '/dynamics'?"),
        (["/**", "/arm_driver"], ["/dynamics"], None),
        (["/**", "/dynamics", "/dynamics_driver"], ["/dynamics"], None),
        (["/**/dynamics", "/**/observer"], ["/viewer"], None),  # as config/dyn_ros.yaml
    ],
)
def test_sections_of_no_node_are_reported(tmp_path, sections, nodes, expected):
    file = tmp_path / "parameters.yaml"
    file.write_text("".join(f"{name}:\n  ros__parameters:\n    a: 1\n" for name in sections))
    texts = list(unused_sections([str(file)], nodes))
    assert len(texts) == (expected is not None)
    if texts:
        assert texts[0].startswith(f"{file}: ") and texts[0].endswith(expected)


def test_nested_namespaces_are_read(tmp_path):
    file = tmp_path / "parameters.yaml"
    file.write_text("left:\n  dynamics:\n    ros__parameters: {a: 1}\n")
    assert list(unused_sections([str(file)], ["/left/dynamics"])) == []
    [text] = unused_sections([str(file)], ["/dynamics"])
    assert text.endswith("no section is for /dynamics; it has /left/dynamics")


@pytest.mark.parametrize("file", sorted(CONFIG.glob("*.yaml")), ids=lambda file: file.name)
def test_the_files_of_the_package_cause_no_warnings(file):
    assert list(unused_sections([str(file)], NODES)) == []
    assert list(unused_sections([str(file)], ["/viewer"])) == []


def test_a_process_logs_what_it_ignores(client, start_process, tmp_path):
    file = tmp_path / "parameters.yaml"
    file.write_text("/**/dynamcis:\n  ros__parameters:\n    gravity: [0.0, 0.0, 1.0]\n")
    node = start_process("--params-file", str(file), robot_descriptoin_file="arm.urdf")
    client.wait(lambda: "is for no node of this process" in node.output(), node.output)
    log = node.output()
    assert "'robot_descriptoin_file' is no parameter of" in log
    assert "did you mean robot_description_file or robot_description?" in log
    assert "'/**/dynamcis' is for no node of this process; did you mean" in log
