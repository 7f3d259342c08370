# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Draws the markers of contacts without RViz.

    python docs/draw_contacts.py            writes docs/images/contacts.png

It starts centroidal_node with a quadruped that accelerates on three feet, receives the MarkerArray
on its ~/markers, and draws it with the robot by ray casting. It requires Pillow
(requirements/test.txt).
"""

import os
import sys
import time
from pathlib import Path

import draw_markers
import numpy as np
from draw_markers import View, add_view, legend_of, robot_solids, sheet_of, view_of

import dyn_ros

FIGURE = Path(__file__).parent / "images" / "contacts.png"
ROBOT = Path(dyn_ros.__file__).parent / "robots" / "quadruped.urdf"
FEET = [f"{end}_{side}_foot" for end in ("front", "hind") for side in ("left", "right")]
LIFTED = "front_left_foot"
RADIUS = 0.02  # of a foot [m]
LEG, FOLDED = [0.0, 0.75, -1.5], [0.1, 1.15, -2.3]  # hips and knee
ACCELERATION = [2.6, 0.8, 0.0, 0.0, 0.0, 0.0]  # of the base [m/s2, rad/s2]
WHAT = {
    "contact_force": "force on each foot",
    "friction_cone": "forces without slipping; red: the foot slips",
    "support_polygon": "hull of the feet in contact",
    "center_of_pressure": "where the forces on the feet act",
    "zmp": "zero moment point",
    "com": "center of mass",
    "com_projection": "center of mass on the ground",
}
PARAMETERS = {
    "root_joint": "floating",
    "base_source": "parameter",
    "contact_frames": FEET,
    "contact_source": "topic",
    "input_timeout": 0.0,
    "acceleration_source": "forward_dynamics",
    "markers.width": 0.008,
    "markers.com.scale": 0.035,
    "markers.com_projection.scale": 0.045,
    "markers.contact_force.scale": 0.55,
    "markers.friction_cone.scale": 0.085,
    "markers.friction_cone.coefficient": 0.45,
    "markers.support_polygon.scale": 0.006,
    "markers.center_of_pressure.scale": 0.05,
    "markers.zmp.scale": 0.026,
    "markers.linear_momentum.show": False,
    "markers.angular_momentum.show": False,
}
EYE, AIM, ZOOM = np.array([1.3, -1.4, 0.75]), np.array([0.0, 0.0, 0.16]), 5.0
PATIENCE = 180.0  # s; the first start on a machine compiles


def standing():
    """Return the model, and the configuration with the feet on the ground."""
    model = dyn_ros.Model.from_urdf_file(ROBOT, root_joint="floating")
    q = np.concatenate([model.neutral()[:7], *(FOLDED if foot == LIFTED else LEG for foot in FEET)])
    oMf = dyn_ros.frame_placements(model, dyn_ros.Data(model), q)
    q[2] = RADIUS - min(oMf[model.frame_index(foot), 2, 3] for foot in FEET)
    return model, q


def efforts(model, q):
    """Return the efforts that accelerate the base, with the least forces on three feet."""
    a = np.zeros(model.nv)
    a[:6] = ACCELERATION
    contacts = [
        dyn_ros.Contact(foot, 3, dyn_ros.ReferenceFrame.LOCAL_WORLD_ALIGNED)
        for foot in FEET
        if foot != LIFTED
    ]
    tau, _ = dyn_ros.contact_inverse_dynamics(
        model, dyn_ros.Data(model), q, np.zeros(model.nv), a, contacts
    )
    return tau[6:]


def marker_array():
    """Return the MarkerArray of centroidal_node."""
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    import rclpy
    from rclpy.executors import SingleThreadedExecutor
    from sensor_msgs.msg import JointState
    from visualization_msgs.msg import MarkerArray

    from dyn_ros.msg import ContactStates
    from dyn_ros.nodes.centroidal_node import CentroidalNode

    model, q = standing()
    arguments = [
        "--ros-args",
        "-r",
        "__ns:=/picture",
        "-p",
        f"robot_description_file:={ROBOT}",
        "-p",
        f"base_pose:={q[:7].tolist()}",
    ]
    for name, value in PARAMETERS.items():
        arguments += ["-p", f"{name}:={value}"]
    rclpy.init(args=arguments)
    node, client = CentroidalNode("centroidal"), rclpy.create_node("client")
    node.start()
    executor = SingleThreadedExecutor()
    for member in (node, client):
        executor.add_node(member)
    state = JointState(
        name=list(model.joint_names[1:]),
        position=q[7:].tolist(),
        velocity=[0.0] * 12,
        effort=efforts(model, q).tolist(),
    )
    touching = ContactStates(name=FEET, active=[foot != LIFTED for foot in FEET])
    publishers = [
        (client.create_publisher(type(message), topic, 10), message)
        for message, topic in ((touching, "centroidal/contacts"), (state, "joint_states"))
    ]
    arrays = []
    client.create_subscription(MarkerArray, "centroidal/markers", arrays.append, 10)
    end = time.monotonic() + PATIENCE
    while not arrays or set(draw_markers.kinds_of(arrays[-1])) != set(WHAT):
        if time.monotonic() > end:
            raise TimeoutError(f"not all of {list(WHAT)} came in {PATIENCE} s, but {arrays[-1:]}")
        for publisher, message in publishers:
            publisher.publish(message)
        executor.spin_once(0.05)
    executor.shutdown()
    for member in (client, node):
        member.destroy_node()
    rclpy.shutdown()
    return arrays[-1]


def solids():
    """Return the shapes of the robot."""
    return list(robot_solids(ROBOT, *standing()))


def picture(array):
    """Return a PIL image of the robot and its markers, and the namespaces drawn."""
    pixels, drawn = view_of(array, solids(), View(EYE, AIM, ZOOM))
    sheet = sheet_of(1, len(WHAT))
    add_view(sheet, 0, "centroidal/markers", pixels, legend_of(array, WHAT))
    return sheet, drawn


def main(path=FIGURE):
    image, drawn = picture(marker_array())
    image.save(path, optimize=True)
    return drawn


if __name__ == "__main__":
    main(*sys.argv[1:])
