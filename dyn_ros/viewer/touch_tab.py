# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The tab Touch of the page: the contact that the observer finds, and the payload."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..engine.kernel.types import Array
from ..engine.spatial import Inertia
from .page.text_line import text_line
from .scene.handle import HANDLE_COLOR

if TYPE_CHECKING:
    import viser
    from geometry_msgs.msg import WrenchStamped

    from ..msg import ExternalContact
    from .scene.scene import RobotScene

MAX_CONTACT_AGE = 1.0  # s; older contacts are not shown
ARROW_DISTANCE = 0.05  # distance of the arrow from the line of the force / reach
MAX_PAYLOAD = 5.0  # kg; small arms in factories carry up to so much
PAYLOAD_STEP = 0.1  # kg
PAYLOAD_DENSITY = 4500.0  # kg/m3; of titanium
PAYLOAD_COLOR = (205, 160, 60)
ESTIMATE_COLOR = (12, 140, 140)


class EstimatedForce(NamedTuple):
    """An external force, as estimated by the observer."""

    frame: str
    force: Array  # (3,), N, in axes of the frame
    point: Array  # (3,), m; a point of its line of action, in the frame


class TouchTab:
    """The contact of one robot, as estimated by the node observer, and its payload.

    The folders of the tab are hidden until there is something to show. `report` receives user
    input: ("hang", mass [kg]) and ("weigh",). `frame_node` returns the scene's node of a frame, ""
    for the world, or raises a ValueError.
    """

    def __init__(
        self,
        robot: RobotScene,
        gui: viser.GuiApi,
        can_hang: bool,
        report: Callable[[tuple[Any, ...]], None],
        frame_node: Callable[[str], str],
    ) -> None:
        self._robot, self._frame_node = robot, frame_node
        self._scene = robot.scene
        self._contact: ExternalContact | None = None
        self._wrench: WrenchStamped | None = None
        self._contact_time = -math.inf
        self._arrow: Any = None
        self._arrow_frame = ""
        self._ball: Any = None
        self._is_weighing = False
        self._contact_folder = gui.add_folder("Contact", visible=False)
        with self._contact_folder:
            self._lamp, self._forces = gui.add_html(""), gui.add_html("")
        self._shown_html = ""
        self._can_hang = can_hang
        self._payload_folder = gui.add_folder("Payload", visible=can_hang)
        with self._payload_folder:
            self._mass = gui.add_slider(
                "mass [kg]",
                0.0,
                MAX_PAYLOAD,
                PAYLOAD_STEP,
                0.0,
                hint="A payload at the tip of the robot. The motors do not compensate it.",
                visible=can_hang,
            )
            self._weigh_button = gui.add_button("Weigh", visible=False)
            self._weight = gui.add_html("")
        self._mass.on_update(lambda event: report(("hang", self._clamp_mass())))
        self._weigh_button.on_click(lambda event: report(("weigh",)))

    # --- messages

    def receive_contact(self, message: ExternalContact) -> None:
        """Process a contact; raise a ValueError for an unknown frame."""
        if message.collision:
            self._frame_node(message.header.frame_id)
        self._contact, self._contact_time = message, time.monotonic()

    def receive_wrench(self, message: WrenchStamped) -> None:
        """Process the estimated wrench at the tip; raise a ValueError for an unknown frame."""
        self._frame_node(message.header.frame_id)
        self._wrench = message

    # --- estimated force

    def _estimated_force(self) -> EstimatedForce | None:
        """Return the force of the contact, or else of the wrench; None if both are unknown."""
        contact, wrench = self._contact, self._wrench
        if contact is None or not contact.collision:
            return None
        force = contact.force * _to_array(contact.direction)
        point = _to_array(contact.point)
        if np.isfinite(force).all() and contact.line_valid and np.isfinite(point).all():
            return EstimatedForce(contact.header.frame_id, force, point)
        if wrench is not None:
            force = _to_array(wrench.wrench.force)
            if np.isfinite(force).all():
                return EstimatedForce(wrench.header.frame_id, force, np.zeros(3))
        return None

    def show(self, now: float, pushed: str | None, push: Array, can_weigh: bool) -> None:
        """Show lamp and numbers at a time [s].

        `push` (3,) is the force with which users push the link `pushed`, in its frame [N].
        """
        contact = self._contact
        if self._weigh_button.visible != can_weigh:
            self._weigh_button.visible = can_weigh
            self._payload_folder.visible = can_weigh or self._can_hang
        if self._is_weighing and not can_weigh:
            self.end_weighing("the node observer has ended")
        is_recent = contact is not None and now - self._contact_time <= MAX_CONTACT_AGE
        self._contact_folder.visible = is_recent
        if contact is None or not is_recent:
            self._contact = self._wrench = None
            return
        text = _contact_text(contact) if contact.collision else "nothing touches the robot"
        lamp = (
            f'<div class="dyn dyn-lamp" data-collision="{str(contact.collision).lower()}">'
            f"<i></i>{escape(text)}</div>"
        )
        forces = "".join(
            f'<div class="dyn {name}"><span style="color:rgb{color}">&#9632;</span> {name} '
            f"<b>{escape(force)}</b></div>"
            for name, color, force in (
                ("push", HANDLE_COLOR, f"{float(np.linalg.norm(push)):.1f} N"),
                ("estimate", ESTIMATE_COLOR, self._estimate_text(contact, pushed, push)),
            )
        )
        if lamp + forces != self._shown_html:
            self._shown_html = lamp + forces
            self._lamp.content, self._forces.content = lamp, forces

    def _estimate_text(self, contact: ExternalContact, pushed: str | None, push: Array) -> str:
        """Return the estimated force as text, with the angle between it and the push."""
        estimate = self._estimated_force()
        if estimate is None:
            return "not determined" if contact.collision else "none"
        frame, force, _ = estimate
        magnitude = float(np.linalg.norm(force))
        text = f"{magnitude:.1f} N"
        if math.isfinite(contact.force_deviation) and magnitude == contact.force:
            text = f"{magnitude:.1f} \u00b1 {contact.force_deviation:.1f} N"
        if pushed is not None and magnitude > 0.0 and np.linalg.norm(push) > 0.0:
            push_in_world = self._robot.rotate_to_world(pushed, push)
            force_in_world = (
                self._robot.rotate_to_world(frame, force) if self._frame_node(frame) else force
            )
            norms = np.linalg.norm(push_in_world) * np.linalg.norm(force_in_world)
            cosine = push_in_world @ force_in_world / norms
            text += f", {math.degrees(math.acos(min(max(cosine, -1.0), 1.0))):.0f}\u00b0 off"
        return text

    def draw(self, scale: float) -> None:
        """Update the arrow of the estimated force, next to its line; `scale` is its size [m/N]."""
        estimate = self._estimated_force()
        if estimate is None:
            if self._arrow is not None:
                self._arrow.visible = False
            return
        frame, force, point = estimate
        if frame != self._arrow_frame and self._arrow is not None:
            self._arrow.remove()
            self._arrow = None
        start = point + ARROW_DISTANCE * max(self._robot.reach, 0.1) * _perpendicular_vector(force)
        points = np.array([[start, start + scale * force]])
        if self._arrow is None:
            self._arrow_frame = frame
            self._arrow = self._scene.add_arrows(
                f"{self._frame_node(frame)}/touch",
                points,
                ESTIMATE_COLOR,
                shaft_radius=0.008,
                head_radius=0.02,
                head_length=0.04,
            )
        self._arrow.visible, self._arrow.points = True, points

    # --- payloads

    def _clamp_mass(self) -> float:
        """Return the mass of the slider [kg]; a number that was typed is limited to its range."""
        mass = min(max(self._mass.value, 0.0), MAX_PAYLOAD)
        if mass != self._mass.value:
            self._mass.value = mass
        return mass

    def show_payload(self, mass: float) -> None:
        """Draw a payload of a mass [kg] at the robot's tip; remove it if the mass is zero."""
        if self._ball is not None:
            self._ball.remove()
            self._ball = None
        if mass > 0.0:
            radius = payload_radius(mass)
            self._ball = self._scene.add_icosphere(
                f"{self._robot.node(self._robot.tip)}/payload",
                radius,
                PAYLOAD_COLOR,
                position=(0.0, 0.0, radius),
            )
        self._show_weighing(False)

    def start_weighing(self) -> None:
        """Show that the payload is being weighed."""
        self._is_weighing = True
        self._show_weighing(True)

    def end_weighing(self, text: str) -> None:
        """Show the result of weighing."""
        self._is_weighing = False
        self._show_weighing(False, text)

    def _show_weighing(self, is_weighing: bool, text: str = "") -> None:
        """Show a button that is busy or ready, and a text."""
        self._weigh_button.disabled = is_weighing
        self._weigh_button.label = "Weighing ..." if is_weighing else "Weigh"
        self._weight.content = text_line(text) if text else ""


def _contact_text(contact: ExternalContact) -> str:
    """Return the link of a contact, and other possible links, as text."""
    if not contact.link:
        return "contact"
    alternatives = [link for link in contact.possible_links if link != contact.link]
    if not alternatives:
        return f"contact at {contact.link}"
    count = len(alternatives)
    alternative = alternatives[0] if count == 1 else f"{count} others"
    return f"contact at {contact.link} or {alternative}"


def payload_radius(mass: float) -> float:
    """Return the radius [m] of the payload, a homogeneous ball of `PAYLOAD_DENSITY`."""
    return (0.75 / math.pi * mass / PAYLOAD_DENSITY) ** (1.0 / 3.0)


def payload_inertia(mass: float) -> Inertia:
    """Return the inertia of the payload in the frame of its link, whose origin it touches."""
    radius = payload_radius(mass)
    return Inertia(mass, (0.0, 0.0, radius), 0.4 * mass * radius**2 * np.eye(3))


def _perpendicular_vector(force: Array) -> Array:
    """Return a unit vector perpendicular to a force, horizontal unless the force is vertical."""
    vector = np.array([-force[1], force[0], 0.0])
    if np.linalg.norm(vector) < 0.1 * np.linalg.norm(force):
        vector = np.array([0.0, -force[2], force[1]])
    return vector / max(float(np.linalg.norm(vector)), 1e-9)


def _to_array(message: Any) -> Array:
    """Return a Vector3 or a Point as an array (3,)."""
    return np.array([message.x, message.y, message.z])
