# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What touches the robot, on the page: the estimated force, and the payload that hangs on it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from ..engine.kernel.types import Array
from ..engine.spatial import Inertia
from .page.plots import line
from .scene.handle import PULL

if TYPE_CHECKING:
    import viser
    from geometry_msgs.msg import WrenchStamped

    from ..msg import ExternalContact
    from .scene.scene import RobotScene

STALE = 1.0  # age at which an estimate that is no longer published is not shown [s]
BESIDE = 0.05  # distance of the arrow of the estimated force from its line, of the reach
PAYLOAD_MASS = 0.5  # [kg]
PAYLOAD_RADIUS = 0.03  # [m]: a ball, which touches the origin of the link that it hangs on
GOLD = (205, 160, 60)
ESTIMATE = (12, 140, 140)  # color of the estimated force


class TouchTab:
    """What touches one robot, according to the node observer, and its payload.

    Its folders of the page are hidden until there is something to show. `report` receives what
    users do: ("hang", on) and ("weigh",). `node_of` returns the scene's node of a frame, "" for
    the world, or raises a ValueError.
    """

    def __init__(
        self,
        robot: RobotScene,
        gui: viser.GuiApi,
        can_hang: bool,
        report: Callable[[tuple[Any, ...]], None],
        node_of: Callable[[str], str],
    ) -> None:
        self._robot, self._node_of = robot, node_of
        self._scene = robot.scene
        self._contact: ExternalContact | None = None
        self._wrench: WrenchStamped | None = None
        self._received = -math.inf
        self._arrow: Any = None
        self._arrow_frame = ""
        self._ball: Any = None
        self._weighing = False
        self._contact_folder = gui.add_folder("Contact", visible=False)
        with self._contact_folder:
            self._lamp, self._forces = gui.add_html(""), gui.add_html("")
        self._shown = ""
        self._can_hang = can_hang
        self._payload_folder = gui.add_folder("Payload", visible=can_hang)
        with self._payload_folder:
            self._hung = gui.add_checkbox(f"{PAYLOAD_MASS:g} kg", False, visible=can_hang)
            self._weigh = gui.add_button("Weigh", visible=False)
            self._weight = gui.add_html("")
        self._hung.on_update(lambda event: report(("hang", self._hung.value)))
        self._weigh.on_click(lambda event: report(("weigh",)))

    # --- messages

    def receive_contact(self, message: ExternalContact) -> None:
        """Process a contact; a ValueError for an unknown frame."""
        if message.collision:
            self._node_of(message.header.frame_id)
        self._contact, self._received = message, time.monotonic()

    def receive_wrench(self, message: WrenchStamped) -> None:
        """Process the estimated wrench at the tip; a ValueError for an unknown frame."""
        self._node_of(message.header.frame_id)
        self._wrench = message

    # --- what is estimated

    def _force(self) -> tuple[str, Array, Array] | None:
        """Return axes, vector [N] and a point [m] of the line of the estimated force, if known."""
        contact, wrench = self._contact, self._wrench
        if contact is None or not contact.collision:
            return None
        direction, point = contact.direction, contact.point
        force = contact.force * np.array([direction.x, direction.y, direction.z])
        at = np.array([point.x, point.y, point.z])
        if np.isfinite(force).all() and contact.line_valid and np.isfinite(at).all():
            return contact.header.frame_id, force, at
        if wrench is not None:
            vector = wrench.wrench.force
            force = np.array([vector.x, vector.y, vector.z])
            if np.isfinite(force).all():
                return wrench.header.frame_id, force, np.zeros(3)
        return None

    def show(self, now: float, pushed: str | None, push: Array, can_weigh: bool) -> None:
        """Show lamp and numbers at a time [s]; `push` is the handle's force, in its link [N]."""
        contact = self._contact
        if self._weigh.visible != can_weigh:
            self._weigh.visible = can_weigh
            self._payload_folder.visible = can_weigh or self._can_hang
        if self._weighing and not can_weigh:
            self.end_weighing("the node observer has ended")
        known = contact is not None and now - self._received <= STALE
        self._contact_folder.visible = known
        if contact is None or not known:
            self._contact = self._wrench = None
            return
        where = _place(contact) if contact.collision else "nothing touches the robot"
        lamp = (
            f'<div class="dyn dyn-lamp" data-collision="{str(contact.collision).lower()}">'
            f"<i></i>{escape(where)}</div>"
        )
        forces = "".join(
            f'<div class="dyn {name}"><span style="color:rgb{color}">&#9632;</span> {name} '
            f"<b>{escape(force)}</b></div>"
            for name, color, force in (
                ("push", PULL, f"{float(np.linalg.norm(push)):.1f} N"),
                ("estimate", ESTIMATE, self._describe(contact, pushed, push)),
            )
        )
        if lamp + forces != self._shown:
            self._shown = lamp + forces
            self._lamp.content, self._forces.content = lamp, forces

    def _describe(self, contact: ExternalContact, pushed: str | None, push: Array) -> str:
        """Return the estimated force as text, with the angle between it and the push."""
        estimate = self._force()
        if estimate is None:
            return "not determined" if contact.collision else "none"
        axes, force, _ = estimate
        size = float(np.linalg.norm(force))
        text = f"{size:.1f} N"
        if math.isfinite(contact.force_deviation) and size == contact.force:
            text = f"{size:.1f} \u00b1 {contact.force_deviation:.1f} N"
        if pushed is not None and size > 0.0 and np.linalg.norm(push) > 0.0:
            true = self._robot.to_world(pushed, push)
            shown = self._robot.to_world(axes, force) if self._node_of(axes) else force
            cosine = true @ shown / (np.linalg.norm(true) * np.linalg.norm(shown))
            text += f", {math.degrees(math.acos(min(max(cosine, -1.0), 1.0))):.0f}\u00b0 off"
        return text

    def draw(self, scale: float) -> None:
        """Update the arrow of the estimated force, beside its line; `scale` is its size [m/N]."""
        estimate = self._force()
        if estimate is None:
            if self._arrow is not None:
                self._arrow.visible = False
            return
        axes, force, point = estimate
        if axes != self._arrow_frame and self._arrow is not None:
            self._arrow.remove()
            self._arrow = None
        beside = point + BESIDE * max(self._robot.reach, 0.1) * _perpendicular(force)
        points = np.array([[beside, beside + scale * force]])
        if self._arrow is None:
            self._arrow_frame = axes
            self._arrow = self._scene.add_arrows(
                f"{self._node_of(axes)}/touch",
                points,
                ESTIMATE,
                shaft_radius=0.008,
                head_radius=0.02,
                head_length=0.04,
            )
        self._arrow.visible, self._arrow.points = True, points

    # --- payloads

    def hang(self, on: bool) -> None:
        """Draw the payload at the robot's tip, or remove it."""
        if self._ball is not None:
            self._ball.remove()
            self._ball = None
        if on:
            self._ball = self._scene.add_icosphere(
                f"{self._robot.node(self._robot.tip)}/payload",
                PAYLOAD_RADIUS,
                GOLD,
                position=(0.0, 0.0, PAYLOAD_RADIUS),
            )
        self._show_weighing(False)

    def start_weighing(self) -> None:
        self._weighing = True
        self._show_weighing(True)

    def end_weighing(self, text: str) -> None:
        self._weighing = False
        self._show_weighing(False, text)

    def _show_weighing(self, busy: bool, text: str = "") -> None:
        self._weigh.disabled = busy
        self._weigh.label = "Weighing ..." if busy else "Weigh"
        self._weight.content = line(text) if text else ""


def _place(contact: ExternalContact) -> str:
    if not contact.link:
        return "contact"
    others = [link for link in contact.possible_links if link != contact.link]
    if not others:
        return f"contact at {contact.link}"
    more = others[0] if len(others) == 1 else f"{len(others)} others"
    return f"contact at {contact.link} or {more}"


def payload() -> Inertia:
    moment = 0.4 * PAYLOAD_MASS * PAYLOAD_RADIUS**2
    return Inertia(PAYLOAD_MASS, (0.0, 0.0, PAYLOAD_RADIUS), moment * np.eye(3))


def _perpendicular(force: Array) -> Array:
    """Return a unit vector perpendicular to a force, horizontal unless the force is vertical."""
    across = np.array([-force[1], force[0], 0.0])
    if np.linalg.norm(across) < 0.1 * np.linalg.norm(force):
        across = np.array([0.0, -force[2], force[1]])
    return across / max(float(np.linalg.norm(across)), 1e-9)
