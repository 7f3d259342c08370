# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Push the demo's arm for ten seconds, and print what observer_node finds.

The argument is the frame to push: a link, joint or fixed joint; by default the tool.
"""

import math
import sys

import rclpy
from geometry_msgs.msg import WrenchStamped
from rclpy.task import Future
from sensor_msgs.msg import JointState

from dyn_ros.msg import ExternalContact

rclpy.init()
node = rclpy.create_node("push")
push = WrenchStamped()
push.header.frame_id = sys.argv[1] if len(sys.argv) > 1 else "tool"
push.wrench.force.y = 20.0  # N, in the axes of the frame
publisher = node.create_publisher(WrenchStamped, "push", 1)
efforts, contacts = [], []  # all messages
node.create_subscription(JointState, "observer/external_efforts", efforts.append, 1)
node.create_subscription(ExternalContact, "observer/contacts", contacts.append, 1)


def show():
    if not efforts or not contacts:
        print("waiting for observer_node", flush=True)
        return
    contact = contacts[-1]
    force = "unknown force" if math.isnan(contact.force) else f"{contact.force:.1f} N"
    print("external efforts [N m]:", *(f"{round(tau, 1) + 0.0:.1f}" for tau in efforts[-1].effort))
    print(
        f"contact: {force} on {' or '.join(contact.possible_links)}"
        if contact.collision
        else "no contact",
        flush=True,
    )


node.create_timer(0.1, lambda: publisher.publish(push))  # the demo ends a push after 1 s
node.create_timer(1.0, show)
rclpy.spin_until_future_complete(node, Future(), timeout_sec=10.0)
