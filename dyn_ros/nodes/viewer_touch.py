# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Shows on the viewer's page what the node observer estimates: contacts and payloads."""
from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from geometry_msgs.msg import WrenchStamped
from rclpy.qos import QoSProfile, ReliabilityPolicy

from dyn_ros.model.types import Array
from dyn_ros.spatial import Inertia

from ..msg import ExternalContact
from ..srv import ClearPayload, EstimatePayload, SetPayload
from .conversions import set_inertia

if TYPE_CHECKING:
    from dyn_ros.viewer.scene import RobotScene
    from dyn_ros.viewer.touch_panel import TouchPanel

    from .viewer_node import ViewerNode

STALE = 1.0             # age at which an estimate that is no longer published is not shown [s]
BESIDE = 0.05           # distance of the arrow of the estimated force from its line, of the reach
PAYLOAD_MASS = 0.5      # [kg]
PAYLOAD_RADIUS = 0.03   # [m]: a ball, which touches the origin of the link that it hangs on
PAYLOAD = "0.5 kg"
PAYLOAD_NAME, ESTIMATED = "weight", "estimated"
GOLD = (205, 160, 60)


class Touch:
    """The observer's estimates on the page, for one robot after another.

    Parameters
    ----------
    node : ViewerNode
    simulated : str
        Node of a simulated robot, with the services set_payload and clear_payload; empty: none.
    """

    def __init__(self, node: ViewerNode, simulated: str) -> None:
        self._node = node
        newest = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        node.subscribe(ExternalContact, "observer/contacts", self._on_contact, newest)
        node.subscribe(WrenchStamped, "observer/external_wrench", self._on_wrench, newest)
        self._estimate = node.create_client(EstimatePayload, "observer/estimate_payload")
        self._forget = node.create_client(ClearPayload, "observer/clear_payload")
        self._hang: Any = None
        self._take_off: Any = None
        if simulated:
            self._hang = node.create_client(SetPayload, f"{simulated}/set_payload")
            self._take_off = node.create_client(ClearPayload, f"{simulated}/clear_payload")
        self._panel: TouchPanel | None = None
        self.remove()

    def close(self) -> None:
        """Destroy the clients."""
        for client in (self._estimate, self._forget, self._hang, self._take_off):
            if client is not None:
                self._node.destroy_client(client)

    def remove(self) -> None:
        """Forget the robot."""
        self._contact: ExternalContact | None = None
        self._wrench: WrenchStamped | None = None
        self._received = -math.inf
        self._arrow: Any = None
        self._arrow_frame = ""
        self._ball: Any = None
        self._weighed_before = self._applied = self._weighing = False

    def attach(self, robot: RobotScene, panel: TouchPanel) -> None:
        """Show another robot."""
        self.remove()
        self._robot, self._panel = robot, panel
        self._scene = robot.scene

    # Messages

    def _on_contact(self, message: ExternalContact) -> None:
        if self._panel is not None:
            if message.collision:
                self._node.node_of(message.header.frame_id)     # raises a ValueError if unknown
            self._contact, self._received = message, time.monotonic()

    def _on_wrench(self, message: WrenchStamped) -> None:
        if self._panel is not None:
            self._node.node_of(message.header.frame_id)
            self._wrench = message

    # What is estimated

    def _force(self) -> tuple[str, Array, Array] | None:
        """Return axes, vector [N] and a point of the line of action [m] of the estimated force.

        None: nothing touches the robot, or its force is not determined.
        """
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

    def show(self, now: float, pushed: str | None, push: Array) -> None:
        """Show lamp and numbers at a time [s].

        Parameters
        ----------
        now : float
        pushed : str or None
            The link with the handle.
        push : (3,) ndarray
            The force on it, expressed in its frame [N].
        """
        panel, contact = self._panel, self._contact
        if panel is None:
            return
        ready = self._estimate.service_is_ready()
        panel.allow_weighing(ready)
        if self._weighing and not ready:
            self._end_weighing("the node observer has ended")
        if contact is None or now - self._received > STALE:
            self._contact = self._wrench = None
            panel.show_contact(None, "", "", "")
            return
        text = _place(contact) if contact.collision else "nothing touches the robot"
        size = float(np.linalg.norm(push))
        panel.show_contact(contact.collision, text, f"{size:.1f} N",
                           self._describe(contact, pushed, push))

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
            found = self._to_world(axes, force)
            cosine = true @ found / (np.linalg.norm(true) * np.linalg.norm(found))
            text += f", {math.degrees(math.acos(min(max(cosine, -1.0), 1.0))):.0f}\u00b0 off"
        return text

    def _to_world(self, axes: str, vector: Array) -> Array:
        return self._robot.to_world(axes, vector) if self._node.node_of(axes) else vector

    def draw(self, scale: float) -> None:
        """Update the arrow of the estimated force, beside its line; `scale` is its size [m/N]."""
        estimate = self._force() if self._panel is not None else None
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
            from dyn_ros.viewer.touch_panel import ESTIMATE
            self._arrow_frame = axes
            self._arrow = self._scene.add_arrows(
                f"{self._node.node_of(axes)}/touch", points, ESTIMATE,
                shaft_radius=0.008, head_radius=0.02, head_length=0.04)
        self._arrow.visible, self._arrow.points = True, points

    # Payloads

    def hang(self, on: bool) -> None:
        """Hang a payload on the last link of the simulated robot, or take it off."""
        if self._hang is None:
            return
        link = self._robot.links[-1]
        self._weighed_before = False
        if self._ball is not None:
            self._ball.remove()
            self._ball = None
        if on:
            request = SetPayload.Request(name=PAYLOAD_NAME)
            request.inertia.header.frame_id = link
            set_inertia(request.inertia.inertia, payload())
            self._hang.call_async(request)
            self._ball = self._scene.add_icosphere(
                f"{self._robot.node(link)}/payload", PAYLOAD_RADIUS, GOLD,
                position=(0.0, 0.0, PAYLOAD_RADIUS))
        else:
            self._take_off.call_async(ClearPayload.Request(name=PAYLOAD_NAME))
        self._clear_estimate()

    def _clear_estimate(self) -> None:
        """Have the observer forget the payload that it has weighed."""
        if self._applied:
            self._forget.call_async(ClearPayload.Request(name=ESTIMATED))
        self._applied = False
        assert self._panel is not None
        self._panel.show_weighing(False)

    def weigh(self) -> None:
        """Have the observer estimate the payload, and apply the estimate."""
        panel = self._panel
        assert panel is not None
        request = EstimatePayload.Request(restart=not self._weighed_before, apply=True)
        self._weighed_before = self._weighing = True
        panel.show_weighing(True)

        def done(future: Any) -> None:
            if panel is self._panel:
                self._node.guard("estimate_payload", self._weighed, future.result())
        self._estimate.call_async(request).add_done_callback(done)

    def _weighed(self, response: EstimatePayload.Response) -> None:
        self._applied = self._applied or response.applied
        text = response.message
        if response.success:
            body = response.inertia.inertia
            text = f"{body.m:.3f} kg ({response.mass_lower:.3f} to {response.mass_upper:.3f})"
            if response.com_determined:
                com = [round(1e3 * x) for x in (body.com.x, body.com.y, body.com.z)]
                text += "; center of mass at {}, {}, {} mm of {}".format(
                    *com, response.inertia.header.frame_id)
        self._end_weighing(text)

    def _end_weighing(self, text: str) -> None:
        assert self._panel is not None
        self._weighing = False
        self._panel.show_weighing(False, text)


def _place(contact: ExternalContact) -> str:
    """Return where a contact is, as text."""
    if not contact.link:
        return "contact"
    others = [link for link in contact.possible_links if link != contact.link]
    if not others:
        return f"contact at {contact.link}"
    more = others[0] if len(others) == 1 else f"{len(others)} others"
    return f"contact at {contact.link} or {more}"


def payload() -> Inertia:
    """Return the payload: a ball, of mass `PAYLOAD_MASS`."""
    moment = 0.4 * PAYLOAD_MASS * PAYLOAD_RADIUS ** 2
    return Inertia(PAYLOAD_MASS, (0.0, 0.0, PAYLOAD_RADIUS), moment * np.eye(3))


def _perpendicular(force: Array) -> Array:
    """Return a unit vector perpendicular to a force, horizontal unless the force is vertical."""
    across = np.array([-force[1], force[0], 0.0])
    if np.linalg.norm(across) < 0.1 * np.linalg.norm(force):
        across = np.array([0.0, -force[2], force[1]])
    return across / max(float(np.linalg.norm(across)), 1e-9)
