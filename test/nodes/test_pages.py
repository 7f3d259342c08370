# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The pages of the nodes: their lists are what the nodes have."""

import importlib.util
import re
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="no ROS here: rclpy is not importable")

SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "generate.py"
_spec = importlib.util.spec_from_file_location("generate", SCRIPT)
generate = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(generate)
PAGES = [page for page in generate.PAGES if generate.LIST_PATTERN.search(page.read_text())]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_lists_are_up_to_date(page):
    assert page.read_text() == generate.render_page(page), "run `python docs/generate.py`"


@pytest.mark.parametrize("name", generate.NODES)
def test_each_topic_service_and_parameter_is_on_a_page(name):
    text = "".join(page.read_text() for page in PAGES if page.stem in (name, "nodes"))
    with generate.running_node(name) as node:
        names = {
            *node.parameters.specs,
            *(output.topic for output in node.outputs),
            *(service.name for service in node.provided_services),
            *(
                subscription.topic_name.replace(f"/{name}/", "~/")
                for subscription in node.subscriptions
            ),
        }
    documented = set(re.findall(r"^[|-] `([^`]+)`", text, re.MULTILINE))
    documented |= documented_marker_parameters(name)
    assert {topic.removeprefix("/") for topic in names} <= documented


def documented_marker_parameters(name):
    """Return the parameters of a node's markers that docs/markers.md lists."""
    page = (generate.ROOT / "docs" / "markers.md").read_text()
    parameters = set(re.findall(r"^- `(markers\.\w+)`", page, re.MULTILINE))
    for kinds in re.findall(rf"<!-- {name} markers -->\n(.*?)<!-- end -->", page, re.DOTALL):
        for item in kinds.split("\n- "):
            kind, *parameter_names = re.findall(r"`(\w+)`(?:\s+\([^)]*\))?:", item)
            parameters |= {f"markers.{kind}.{name}" for name in ("show", "color", *parameter_names)}
    return parameters


def test_a_changed_list_is_written_as_the_node_has_it(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- dynamics outputs -->\nold\n<!-- end -->\nafter\n")
    text = generate.render_page(page)
    assert text.startswith(
        "before\n<!-- dynamics outputs -->\n"
        "- `~/gravity` (sensor_msgs/JointState): the torques that hold the robot still\n- `"
    )
    assert text.endswith("\n<!-- end -->\nafter\n"), text
    assert "\nold\n" not in text


def test_every_node_has_a_page():
    setup = (generate.ROOT / "setup.cfg").read_text()
    nodes = set(re.findall(r"^ +(\w+)_node = ", setup, re.MULTILINE))
    documented = "".join(page.read_text() for page in PAGES)
    assert nodes == {*generate.NODES, "viewer"}
    assert all(
        any(f"<!-- {name} {part} -->" in documented for part in ("parameters", "common"))
        for name in nodes
    )
