# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The layouts for Foxglove and PlotJuggler in config: existing topics, joints and panels."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("dyn_ros.msg", reason="the messages are not built: run `make test`")

from dyn_ros.viewer.page.plots import CURVES

CONFIG = Path(__file__).parents[3] / "config"
FOXGLOVE = json.loads((CONFIG / "dyn_ros.foxglove.json").read_text())
PANELS = FOXGLOVE["configById"]
PLOTJUGGLER = ElementTree.parse(CONFIG / "dyn_ros.plotjuggler.xml").getroot()
NODES = "dynamics", "centroidal", "vereshchagin", "observer"


def leaves(layout):
    """The panels of a part of Foxglove's layout, from top left to bottom right."""
    if isinstance(layout, str):
        return [layout]
    assert layout["direction"] in ("row", "column") and 0 < layout["splitPercentage"] < 100
    return [*leaves(layout["first"]), *leaves(layout["second"])]


def test_each_panel_of_foxglove_is_shown_once():
    assert sorted(leaves(FOXGLOVE["layout"])) == sorted(PANELS)
    assert {name.partition("!")[0] for name in PANELS} == {"3D", "Plot"}


def test_the_scene_of_foxglove_has_the_robot_and_all_markers(arm):
    scene = PANELS["3D!dyn_ros"]
    assert set(scene["topics"]) == {f"/{name}/markers" for name in NODES}
    assert scene["followTf"] == arm.tree.frames[0].name
    assert scene["layers"]["robot"]["topic"] == "/robot_description"


def foxglove_topics():
    """Topics of the plots, of one joint each, which a variable selects."""
    for name in PANELS:
        for path in PANELS[name].get("paths", ()):
            topic, variable = re.fullmatch(r"(.*)\.effort\[\$(\w+)]", path["value"]).groups()
            assert variable in FOXGLOVE["globalVariables"]
            assert path["color"] == CURVES[path["label"]].color
            yield topic


def plotjuggler_topics():
    for curve in PLOTJUGGLER.iter("curve"):
        yield curve.get("name").rsplit("/", 2)[0]


def test_the_curves_are_torques_that_the_nodes_publish(client, start):
    node = start(module="dyn_ros.nodes.dyn_ros_node")
    used = {*foxglove_topics(), *plotjuggler_topics()} - {"/joint_states"}
    assert len(used) == 3

    def found():
        types = dict(client.node.get_topic_names_and_types())
        return all(
            types.get(node.topic(topic[1:])) == ["sensor_msgs/msg/JointState"] for topic in used
        )

    client.wait(found, node.output)


def test_the_curves_of_plotjuggler_are_those_of_the_arm_of_the_examples(arm):
    names = [joint.name for joint in arm.tree.joints]
    tabs = PLOTJUGGLER.findall("tabbed_widget/Tab")
    assert len(tabs) == 2
    for tab in tabs:
        assert [area.get("name") for area in tab.iter("DockArea")] == names
        for area in tab.iter("DockArea"):
            for curve in area.iter("curve"):
                assert curve.get("name").endswith(f"/{area.get('name')}/effort")


def test_the_plots_of_plotjuggler_share_the_window():
    for splitter in PLOTJUGGLER.iter("DockSplitter"):
        sizes = [float(size) for size in splitter.get("sizes").split(";")]
        assert len(sizes) == int(splitter.get("count")) == len(splitter)
        assert sum(sizes) == pytest.approx(1.0, abs=1e-4)
