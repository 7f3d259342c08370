# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Draws the markers of the nodes without RViz.

    python docs/draw_markers.py             writes docs/images/markers.png

It starts all nodes with the 7-joint arm, publishes a joint state and a push on the tool, receives
the MarkerArray messages on their ~/markers, and draws them with the arm by ray casting. It
requires Pillow (requirements/test.txt). The markers of contacts are in docs/draw_contacts.py.
"""

import os
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

import numpy as np

import dyn_ros

ROOT = Path(__file__).resolve().parents[1]
ARM = ROOT / "dyn_ros" / "robots" / "arm7.urdf"
FIGURE = ROOT / "docs" / "images" / "markers.png"
POSITION = np.array([-0.5, 0.55, 0.3, 1.25, -0.2, 0.75, 0.3])
VELOCITY = np.array([0.9, 0.5, -0.3, 0.8, 0.5, -0.6, 0.7])
LOAD = np.array([0.35, -0.9, 0.5, -0.75, 0.6, -0.45, 0.8])  # relative to the effort limits
PUSH = {"x": -14.0, "y": -12.0, "z": -6.0}, {"x": 3.0, "y": -2.0, "z": 6.0}  # N, N m
PATIENCE = 180.0  # s; the first start on a machine compiles
PARAMETERS = f"""
/**/dyn_ros:
  ros__parameters:
    robot_description_file: {ARM}
/**/dynamics:
  ros__parameters:
    markers.width: 0.009
    markers.torque.scale: 0.105
    markers.torque.source: effort
    markers.torque.numbers: none
    markers.inertia.show: true
    markers.velocity_ellipsoid.frame: tool
    markers.force_ellipsoid.frame: tool
    markers.force_ellipsoid.scale: 0.04
    markers.wrench.topics: [push]
    markers.wrench.scale: 0.014
/**/centroidal:
  ros__parameters:
    markers.width: 0.01
    markers.com.scale: 0.07
    markers.subtree_com.show: true
    markers.subtree_com.scale: 0.09
    markers.locked_inertia.show: true
    markers.linear_momentum.scale: 0.07
    markers.angular_momentum.scale: 0.25
/**/vereshchagin:
  ros__parameters:
    markers.width: 0.009
    constraints: hold_pose
    tip_frame: tool
    feedforward: gravity
    wrench_topics: [push]
    input_timeout: 0.0
    markers.constraint.scale: 0.13
    markers.constraint_force.scale: 0.014
    markers.wrench.scale: 0.014
"""
TITLES = {
    "dynamics": "dynamics/markers",
    "centroidal": "centroidal/markers",
    "vereshchagin": "vereshchagin/markers",
}
WHAT = {
    "torque": "torque of each joint, red at its limit",
    "inertia": "inertia of each body",
    "velocity_ellipsoid": "how fast the tool can move",
    "force_ellipsoid": "how hard the tool can push",
    "wrench": "what pushes the tool",
    "com": "center of mass",
    "com_projection": "center of mass on the ground",
    "subtree_com": "center of mass behind each joint",
    "linear_momentum": "momentum",
    "angular_momentum": "angular momentum",
    "locked_inertia": "inertia of the whole robot",
    "constraint": "directions that are held",
    "constraint_force": "what holds them",
}


# --- messages


def marker_arrays():
    """Return the MarkerArray that each node publishes, by name."""
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    import rclpy
    from geometry_msgs.msg import Vector3, WrenchStamped
    from rclpy.executors import SingleThreadedExecutor
    from sensor_msgs.msg import JointState
    from visualization_msgs.msg import MarkerArray

    from dyn_ros.nodes.dyn_ros_node import DynRosNode
    from dyn_ros.nodes.markers.centroidal_markers import CONTACT

    with tempfile.TemporaryDirectory() as folder:
        parameters = Path(folder) / "parameters.yaml"
        parameters.write_text(PARAMETERS)
        rclpy.init(args=["--ros-args", "-r", "__ns:=/picture", "--params-file", str(parameters)])
    nodes = DynRosNode("dyn_ros")
    nodes.start()
    client = rclpy.create_node("client")
    executor = SingleThreadedExecutor()
    for node in (nodes, *nodes.members, client):
        executor.add_node(node)

    model = nodes.robot.model
    state = JointState(
        name=list(model.joint_names),
        position=POSITION.tolist(),
        velocity=VELOCITY.tolist(),
        effort=(LOAD * model.effort_limit).tolist(),
    )
    push = WrenchStamped()
    push.header.frame_id = "tool"
    push.wrench.force, push.wrench.torque = (Vector3(**part) for part in PUSH)
    publishers = [
        (client.create_publisher(type(message), topic, 10), message)
        for message, topic in ((push, "push"), (state, "joint_states"))
    ]
    arrays, kinds = {}, {}
    for node in nodes.members:
        name = node.get_name()
        if name not in TITLES:
            continue
        kinds[name] = {kind.name for kind in node.markers if kind not in CONTACT}
        client.create_subscription(
            MarkerArray,
            f"{name}/markers",
            lambda array, name=name: arrays.update({name: array}),
            10,
        )
    end = time.monotonic() + PATIENCE
    while any(kinds[name] - kinds_of(arrays.get(name)) for name in kinds):
        if time.monotonic() > end:
            raise TimeoutError(f"not all of {kinds} came in {PATIENCE} s, but {arrays}")
        for publisher, message in publishers:
            publisher.publish(message)
        executor.spin_once(0.05)
    executor.shutdown()
    for node in (client, *nodes.members, nodes):
        node.destroy_node()
    rclpy.shutdown()
    return arrays


def kinds_of(array):
    """Return the kinds in an array, in order."""
    return dict.fromkeys(marker.ns.split("/")[0] for marker in shown(array)).keys()


def shown(array):
    return [marker for marker in array.markers if marker.action == marker.ADD] if array else []


# --- solids: a sphere, a cube or a frustum of size 1, stretched, turned and moved by (A, c)


class Solid:
    """Points c + A u, u in |u| <= 1 (sphere), max |u| <= 1 (cube), or |u_z| <= 1 and in a radius
    that goes from 1 below to `top` (frustum)."""

    def __init__(self, kind, A, c, color, top=1.0):
        self.kind, self.A, self.c, self.top = kind, np.asarray(A), np.asarray(c), top
        self.color = np.asarray(color, float)
        self.inverse = np.linalg.inv(self.A)

    def hit(self, o, d):
        """Return t where rays o + t d, (n, 3), first hit, infinite if they miss, and normals."""
        o, d = (o - self.c) @ self.inverse.T, d @ self.inverse.T
        with np.errstate(divide="ignore", invalid="ignore"):
            t, normal = getattr(self, "_" + self.kind)(*np.broadcast_arrays(o, d))
        t = np.where(t > 1e-6, t, np.inf)
        normal = np.where(np.isfinite(t)[:, None], normal, 0.0) @ self.inverse
        return t, normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-12)

    def _sphere(self, o, d):
        t, _ = _roots(np.sum(d * d, 1), np.sum(o * d, 1), np.sum(o * o, 1) - 1.0)
        return t, o + t[:, None] * d

    def _cube(self, o, d):
        faces = (-np.sign(d) - o) / d
        axis = np.argmax(faces, 1)
        t = faces[np.arange(len(o)), axis]
        far = np.min((np.sign(d) - o) / d, 1)
        normal = -np.sign(d) * (np.arange(3) == axis[:, None])
        return np.where(t <= far, t, np.inf), normal

    def _frustum(self, o, d):
        a, b = 0.5 * (self.top + 1.0), 0.5 * (self.top - 1.0)  # radius a + b z
        r, dr = a + b * o[:, 2], b * d[:, 2]
        best, normal = np.full(len(o), np.inf), np.zeros((len(o), 3))

        def take(t, good, n):
            nearer = good & (t > 1e-6) & (t < best)
            best[nearer] = t[nearer]
            normal[nearer] = n[nearer]

        for t in _roots(
            d[:, 0] ** 2 + d[:, 1] ** 2 - dr**2,
            o[:, 0] * d[:, 0] + o[:, 1] * d[:, 1] - r * dr,
            o[:, 0] ** 2 + o[:, 1] ** 2 - r**2,
        ):
            u = o + t[:, None] * d
            side = np.stack([u[:, 0], u[:, 1], -b * (a + b * u[:, 2])], 1)
            take(t, (abs(u[:, 2]) <= 1.0) & (a + b * u[:, 2] >= 0.0), side)
        for z, radius in ((-1.0, 1.0), (1.0, self.top)):
            t = (z - o[:, 2]) / d[:, 2]
            u = o + t[:, None] * d
            take(
                t, u[:, 0] ** 2 + u[:, 1] ** 2 <= radius**2, np.broadcast_to([0.0, 0.0, z], o.shape)
            )
        return best, normal


def _roots(a, b, c):
    """Return both solutions of a t^2 + 2 b t + c = 0, smaller first; infinite without any."""
    root = np.sqrt(b * b - a * c)
    first, second = (-b - root) / a, (-b + root) / a
    first, second = np.minimum(first, second), np.maximum(first, second)
    return (np.where(np.isfinite(t), t, np.inf) for t in (first, second))


def between(start, end, radius, color, top=1.0):
    """Return a frustum from one point to another."""
    half = 0.5 * (end - start)
    length = np.linalg.norm(half)
    z = half / length
    x = np.cross(z, np.eye(3)[np.argmin(abs(z))])
    x /= np.linalg.norm(x)
    A = np.array([radius * x, radius * np.cross(z, x), half]).T
    return Solid("frustum", A, start + half, color, top)


def ball(center, radius, color):
    return Solid("sphere", radius * np.eye(3), center, color)


def vector(message):
    return np.array([message.x, message.y, message.z])


def solids_of(marker):
    """Return the shapes that RViz shows for a marker."""
    color = [marker.color.r, marker.color.g, marker.color.b, marker.color.a]
    points, scale = [vector(point) for point in marker.points], vector(marker.scale)
    if marker.type == marker.ARROW:
        start, end = points
        head = min(scale[2], 0.6 * np.linalg.norm(end - start))
        neck = end - head * (end - start) / np.linalg.norm(end - start)
        return [
            between(start, neck, 0.5 * scale[0], color),
            between(neck, end, 0.5 * scale[1], color, 0.0),
        ]
    if marker.type == marker.LINE_STRIP:
        radius = 0.5 * scale[0]
        return [
            *(between(a, b, radius, color) for a, b in pairwise(points)),
            *(ball(point, radius, color) for point in points),
        ]
    q = marker.pose.orientation
    R = dyn_ros.SE3.from_quaternion((q.x, q.y, q.z, q.w), (0.0, 0.0, 0.0)).rotation
    kind = {marker.SPHERE: "sphere", marker.CUBE: "cube", marker.CYLINDER: "frustum"}[marker.type]
    return [Solid(kind, 0.5 * R * scale, vector(marker.pose.position), color)]


def arm_solids():
    """Return the visual shapes of the arm."""
    return robot_solids(ARM, dyn_ros.Model.from_urdf_file(ARM), POSITION)


def robot_solids(path, model, q):
    """Return the visual shapes of a robot: boxes, cylinders and spheres."""
    placements = dyn_ros.frame_placements(model, dyn_ros.Data(model), q)
    root = ET.parse(path).getroot()
    paint = {
        material.get("name"): numbers(material.find("color"), "rgba")
        for material in root.iterfind("material")
    }
    for link in root.iterfind("link"):
        placement = placements[model.frame_index(link.get("name"))]
        for visual in link.iterfind("visual"):
            origin = visual.find("origin")
            roll, pitch, yaw = numbers(origin, "rpy")
            R = placement[:3, :3] @ turn(2, yaw) @ turn(1, pitch) @ turn(0, roll)
            kind, half = half_sizes(visual.find("geometry")[0])
            yield Solid(
                kind,
                R * half,
                placement[:3, :3] @ numbers(origin, "xyz") + placement[:3, 3],
                paint[visual.find("material").get("name")],
            )


def half_sizes(shape):
    """Return the kind of solid of a shape of a URDF, and half its size along each axis."""
    if shape.tag == "box":
        return "cube", 0.5 * numbers(shape, "size")
    radius = float(shape.get("radius"))
    if shape.tag == "sphere":
        return "sphere", np.full(3, radius)
    return "frustum", np.array([radius, radius, 0.5 * float(shape.get("length"))])


def numbers(element, attribute):
    return np.array(element.get(attribute, "0 0 0").split(), float)


def turn(axis, angle):
    """Rotation about a coordinate axis."""
    x, y = (axis + 1) % 3, (axis + 2) % 3
    R = np.eye(3)
    R[x, x] = R[y, y] = np.cos(angle)
    R[y, x] = np.sin(angle)
    R[x, y] = -R[y, x]
    return R


# --- the picture

WIDTH, HEIGHT = 560, 550  # of one view [pixels]
FINE = 2  # rays across a pixel
EYE, AIM, ZOOM = np.array([1.75, -1.75, 1.15]), np.array([0.18, -0.09, 0.41]), 4.9
LIGHT = np.array([0.35, -0.55, 0.9]) / np.linalg.norm([0.35, -0.55, 0.9])
FILL = np.array([-0.6, -0.5, 0.25]) / np.linalg.norm([-0.6, -0.5, 0.25])
ABOVE, BELOW = np.array([0.17, 0.20, 0.25]), np.array([0.10, 0.115, 0.145])
GHOST = 0.55  # how much of the arm is seen


class View:
    """Rays from the eye through each pixel, and what they have hit so far."""

    def __init__(self, eye=EYE, aim=AIM, zoom=ZOOM):
        self.eye, self.aim = eye, aim
        ahead = (aim - eye) / np.linalg.norm(aim - eye)
        right = np.cross(ahead, [0.0, 0.0, 1.0])
        right /= np.linalg.norm(right)
        self.axes = np.array([right, np.cross(ahead, right), ahead])
        self.shape = FINE * HEIGHT, FINE * WIDTH
        self.focus = zoom * FINE * WIDTH / 2.0
        y, x = np.mgrid[: self.shape[0], : self.shape[1]] + 0.5
        d = np.stack(
            [
                (x - self.shape[1] / 2.0) / self.focus,
                (y - self.shape[0] / 2.0) / self.focus,
                np.ones(self.shape),
            ],
            -1,
        )
        self.d = d @ self.axes
        self.depth = np.full(self.shape, np.inf)
        self.image = BELOW + (ABOVE - BELOW) * (1.0 - y / self.shape[0])[..., None]

    def window(self, solid):
        """Return the rows and columns of the pixels that may show a solid."""
        corners = np.array(np.meshgrid(*3 * [[-1.0, 1.0]])).reshape(3, -1).T
        seen = (solid.c + corners @ solid.A.T - self.eye) @ self.axes.T
        at = self.focus * seen[:, :2] / seen[:, 2:] + [self.shape[1] / 2.0, self.shape[0] / 2.0]
        low = np.clip(np.floor(at.min(0)).astype(int), 0, self.shape[::-1])
        high = np.clip(np.ceil(at.max(0)).astype(int) + 1, 0, self.shape[::-1])
        return slice(low[1], high[1]), slice(low[0], high[0])

    def hit(self, solid, window):
        d = self.d[window]
        t, normal = solid.hit(self.eye, d.reshape(-1, 3))
        return t.reshape(d.shape[:2]), normal.reshape(d.shape)

    def floor(self, casters):
        """Draw a floor with a grid and the shadow of the arm, fading with distance."""
        t = -self.eye[2] / self.d[..., 2]
        t[t <= 0.0] = np.inf
        seen = np.isfinite(t)
        p = self.eye + t[seen, None] * self.d[seen]
        far = np.linalg.norm(p[:, :2] - self.aim[:2], axis=1)
        fade = np.exp(-((far / 0.95) ** 2))
        cell = abs((p[:, :2] / 0.1 + 0.5) % 1.0 - 0.5).min(1) * 0.1
        line = np.clip(1.5 - cell / (0.0011 * t[seen] / 2.0), 0.0, 1.0)
        lit = np.ones(len(p))
        near = np.flatnonzero(far < 1.2)
        for solid in casters:
            s, _ = solid.hit(p[near], LIGHT[None])
            lit[near[np.isfinite(s)]] = 0.0
        tone = np.array([0.27, 0.31, 0.37]) * (0.62 + 0.38 * lit[:, None])
        tone = tone + 0.10 * line[:, None]
        self.image[seen] += fade[:, None] * (tone - self.image[seen])
        self.depth[seen] = t[seen]

    def shade(self, window, normal, color, shine):
        """Return the colors of surfaces under two lamps."""
        d = self.d[window]
        d = d / np.linalg.norm(d, axis=-1, keepdims=True)
        light = 0.34 + 0.62 * np.maximum(normal @ LIGHT, 0.0) + 0.20 * np.maximum(normal @ FILL, 0)
        half = (LIGHT - d) / np.linalg.norm(LIGHT - d, axis=-1, keepdims=True)
        glint = shine * np.maximum(np.sum(normal * half, -1), 0.0) ** 40
        edge = 1.0 - np.abs(np.sum(normal * d, -1))
        return np.clip(color[:3] * light[..., None] + glint[..., None], 0.0, 1.0), edge

    def opaque(self, solids, shine=0.35):
        for solid in solids:
            window = self.window(solid)
            t, normal = self.hit(solid, window)
            nearer = t < self.depth[window]
            tone, _ = self.shade(window, normal, solid.color, shine)
            self.depth[window][nearer] = t[nearer]
            self.image[window][nearer] = tone[nearer]

    def clear(self, solid):
        """Draw a translucent solid, more transparent in the middle than at the edge."""
        window = self.window(solid)
        t, normal = self.hit(solid, window)
        tone, edge = self.shade(window, normal, solid.color, 0.5)
        alpha = np.clip(solid.color[3] * (0.45 + 1.1 * edge**1.5), 0.0, 0.95)
        alpha = np.where(t < self.depth[window], alpha, 0.0)[..., None]
        self.image[window] += alpha * (tone - self.image[window])

    def ghost(self, solids):
        """Draw the arm as one translucent body."""
        behind = self.image.copy(), self.depth.copy()
        self.opaque(solids, 0.25)
        self.image = behind[0] + GHOST * (self.image - behind[0])
        self.depth = behind[1]

    def pixels(self):
        fine = np.clip(self.image, 0.0, 1.0) ** (1.0 / 1.12)
        fine = fine.reshape(HEIGHT, FINE, WIDTH, FINE, 3).mean((1, 3))
        return np.round(255.0 * fine).astype(np.uint8)


def view_of(array, robot=None, view=None):
    """Draw one node's markers and the arm, or another robot, as solids.

    Return the image and the namespaces drawn.
    """
    view, robot = view or View(), list(arm_solids()) if robot is None else robot
    solids = [(marker.ns, solid) for marker in shown(array) for solid in solids_of(marker)]
    view.floor(robot)
    view.opaque([solid for _, solid in solids if solid.color[3] >= 0.75])
    view.ghost(robot)
    clear = [solid for _, solid in solids if solid.color[3] < 0.75]
    for solid in sorted(clear, key=lambda solid: -np.linalg.norm(solid.c - view.eye)):
        view.clear(solid)
    return view.pixels(), [ns for ns, _ in solids]


TOP, LINE = 54, 25  # height of the title, and of each line below a view [pixels]


def sheet_of(views, lines):
    """Return a PIL image with space for views side by side, and for lines of text below each."""
    from PIL import Image

    height = TOP + HEIGHT + 22 + lines * LINE + 14
    return Image.new("RGB", (views * (WIDTH + 4) - 4, height), (22, 25, 31))


def add_view(sheet, column, title, pixels, legend):
    """Add a view with its title and its legend: for each kind, its color and what it shows."""
    from PIL import Image, ImageDraw, ImageFont

    draw, x = ImageDraw.Draw(sheet), column * (WIDTH + 4)
    large, small = (ImageFont.load_default(size) for size in (23, 15.5))
    sheet.paste(Image.fromarray(pixels), (x, TOP))
    draw.text((x + 22, 14), title, (235, 238, 243), large)
    for row, (kind, (color, what)) in enumerate(legend.items()):
        y = TOP + HEIGHT + 18 + row * LINE
        draw.rounded_rectangle(
            (x + 22, y + 3, x + 38, y + 16),
            4,
            tuple(int(255 * part) for part in (color.r, color.g, color.b)),
        )
        draw.text((x + 50, y), kind, (235, 238, 243), small)
        draw.text((x + 205, y), what, (165, 173, 185), small)


def legend_of(array, what):
    """Return the color of each kind in an array, and what it shows."""
    colors = {marker.ns.split("/")[0]: marker.color for marker in shown(array)}
    return {kind: (colors[kind], what[kind]) for kind in kinds_of(array)}


def picture(arrays):
    """Return the views side by side, with legends, as a PIL image, and what was drawn per node."""
    sheet = sheet_of(len(arrays), max(len(kinds_of(array)) for array in arrays.values()))
    drawn = {}
    for column, (name, array) in enumerate(arrays.items()):
        pixels, drawn[name] = view_of(array)
        add_view(sheet, column, TITLES[name], pixels, legend_of(array, WHAT))
    return sheet, drawn


def main(path=FIGURE):
    image, drawn = picture(marker_arrays())
    image.save(path, optimize=True)
    return drawn


if __name__ == "__main__":
    main(*sys.argv[1:])
