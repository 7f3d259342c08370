"""The robot of the demo, a process of its own: what a real one brings to the ROS graph.

It publishes ``robot_description`` (transient local) and ``joint_states`` with position and
velocity, stamped when they are sent.
"""
import argparse
import time
from array import array
from pathlib import Path

import rclpy
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from ..model.urdf import read_urdf
from .motion import Motion


def main():
    """Publish a moving robot until the process is told to end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("urdf", type=Path)
    parser.add_argument("--rate", type=float, required=True)
    options = parser.parse_args()
    xml = options.urdf.read_text(encoding="utf-8")
    motion = Motion(read_urdf(xml).joints)
    rclpy.init(args=[])
    node = rclpy.create_node("demo_robot")
    try:
        move(node, xml, motion, options.rate)
    finally:
        node.destroy_node()
        rclpy.try_shutdown()


def move(node, xml, motion, rate):
    """Publish the description once, and a joint state every period."""
    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    description = node.create_publisher(String, "robot_description", latched)
    description.publish(String(data=xml))
    publisher = node.create_publisher(JointState, "joint_states", 10)
    message = JointState(name=motion.names)
    start = due = time.monotonic()
    while rclpy.ok():
        position, velocity = motion.at(time.monotonic() - start)
        message.position = array("d", position)
        message.velocity = array("d", velocity)
        message.header.stamp = node.get_clock().now().to_msg()
        publisher.publish(message)
        due = max(due + 1 / rate, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    main()
