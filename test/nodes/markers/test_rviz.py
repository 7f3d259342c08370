# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""config/dyn_ros.rviz: existing classes and topics."""

from pathlib import Path

import pytest
import yaml

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("dyn_ros.msg", reason="the messages are not built: run `make test`")

from dyn_ros.nodes import centroidal_node, dynamics_node, observer_node, vereshchagin_node
from dyn_ros.nodes.markers import (
    centroidal_markers,
    dynamics_markers,
    observer_markers,
    vereshchagin_markers,
)

CONFIG = yaml.safe_load((Path(__file__).parents[3] / "config" / "dyn_ros.rviz").read_text())
MANAGER = CONFIG["Visualization Manager"]
CLASSES = {  # of the plugins that come with RViz
    "Panels": {
        "rviz_common/" + name
        for name in (
            "Displays",
            "Help",
            "Selection",
            "Time",
            "Tool Properties",
            "Transformation",
            "Views",
        )
    },
    "Displays": {
        "rviz_default_plugins/" + name
        for name in (
            "AccelStamped",
            "Axes",
            "Camera",
            "DepthCloud",
            "Effort",
            "FluidPressure",
            "Grid",
            "GridCells",
            "Illuminance",
            "Image",
            "InteractiveMarkers",
            "LaserScan",
            "Map",
            "Marker",
            "MarkerArray",
            "Odometry",
            "Path",
            "PointCloud",
            "PointCloud2",
            "PointStamped",
            "Polygon",
            "Pose",
            "PoseArray",
            "PoseWithCovariance",
            "Range",
            "RelativeHumidity",
            "RobotModel",
            "TF",
            "Temperature",
            "TwistStamped",
            "Wrench",
        )
    },
    "Tools": {
        "rviz_default_plugins/" + name
        for name in (
            "FocusCamera",
            "Interact",
            "Measure",
            "MoveCamera",
            "PublishPoint",
            "Select",
            "SetGoal",
            "SetInitialPose",
        )
    },
    "Views": {
        "rviz_default_plugins/" + name
        for name in (
            "FPS",
            "FrameAligned",
            "Orbit",
            "ThirdPersonFollower",
            "TopDownOrtho",
            "XYOrbit",
        )
    },
}


def topics():
    """Return the class of the display of each topic."""
    return {
        display[name]["Value"]: display["Class"]
        for display in MANAGER["Displays"]
        for name in display
        if name.endswith("Topic")
    }


@pytest.mark.parametrize(
    "what, used",
    [
        ("Panels", CONFIG["Panels"]),
        ("Displays", MANAGER["Displays"]),
        ("Tools", MANAGER["Tools"]),
        ("Views", [MANAGER["Views"]["Current"]]),
    ],
)
def test_every_class_is_one_of_rviz(what, used):
    assert {each["Class"] for each in used} <= CLASSES[what]
    assert all(each.get("Enabled", True) for each in used)


def test_topics_are_those_of_the_nodes(client, start):
    """Relative ones, so that RViz in a namespace shows the robot in it."""
    node = start(module="dyn_ros.nodes.dyn_ros_node")
    given = topics()
    arrays = {topic for topic, kind in given.items() if kind.endswith("/MarkerArray")}
    assert arrays == {
        "dynamics/markers",
        "centroidal/markers",
        "vereshchagin/markers",
        "observer/markers",
    }
    assert {topic: kind for topic, kind in given.items() if topic not in arrays} == {
        "robot_description": "rviz_default_plugins/RobotModel"
    }

    def found():
        types = dict(client.node.get_topic_names_and_types())
        return (
            all(
                types.get(node.topic(topic)) == ["visualization_msgs/msg/MarkerArray"]
                and client.node.count_publishers(node.topic(topic)) == 1
                for topic in arrays
            )
            and client.node.count_subscribers(node.topic("robot_description")) == 1
        )

    client.wait(found, node.output)


def test_each_node_with_markers_is_shown():
    nodes = [
        dynamics_node.DynamicsNode,
        centroidal_node.CentroidalNode,
        vereshchagin_node.VereshchaginNode,
        observer_node.ObserverNode,
    ]
    kinds = {each.__name__.removesuffix("Node").lower(): each.markers for each in nodes}
    assert all(kinds.values())
    assert {f"{name}/markers" for name in kinds} < set(topics())


def test_each_kind_is_documented_on_the_page_of_markers():
    page = (Path(__file__).parents[3] / "docs" / "markers.md").read_text()
    for kinds in (
        dynamics_markers.DYNAMICS,
        centroidal_markers.CENTROIDAL,
        centroidal_markers.CONTACT,
        vereshchagin_markers.VERESHCHAGIN,
        observer_markers.OBSERVER,
    ):
        assert [kind.name for kind in kinds if f"`{kind.name}`" not in page] == []


def test_the_frame_that_stands_still_is_the_root_of_the_arm_of_the_examples(arm):
    assert MANAGER["Global Options"]["Fixed Frame"] == arm.tree.frames[0].name
