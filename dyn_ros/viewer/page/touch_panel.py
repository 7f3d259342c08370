# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The panels for what touches the robot: a collision lamp, forces, and the weighing of payloads."""
from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import viser

PUSH, ESTIMATE = (230, 50, 180), (12, 140, 140)
"""The colors of the force on the handle and of the estimated one."""


def line(text: str, kind: str = "") -> str:
    """Return a line of text of the panel, as HTML; its kind is a class of page.css."""
    return f'<div class="dyn {kind}">{escape(text)}</div>'


class TouchPanel:
    """What touches the robot, according to the node observer. Hidden until it is shown.

    `report` receives the user's input: ("hang", on) and ("weigh",). `payload` is the label of the
    check box that hangs one on the robot; empty: none.
    """

    def __init__(self, gui: viser.GuiApi, report: Callable[[tuple[Any, ...]], None],
                 payload: str) -> None:
        self._contact = gui.add_folder("Contact", visible=False)
        with self._contact:
            self._lamp, self._forces = gui.add_html(""), gui.add_html("")
        self._payload = gui.add_folder("Payload", visible=bool(payload))
        self._can_hang = bool(payload)
        with self._payload:
            self._hung = gui.add_checkbox(payload or "payload", False, visible=bool(payload))
            self._weigh = gui.add_button("Weigh", visible=False)
            self._weight = gui.add_html("")
        self._hung.on_update(lambda event: report(("hang", self._hung.value)))
        self._weigh.on_click(lambda event: report(("weigh",)))
        self._shown = ""

    def show_contact(self, collision: bool | None, text: str, pushed: str, estimate: str) -> None:
        """Show the lamp with a text, and the two forces as text; None: no message arrives."""
        self._contact.visible = collision is not None
        if collision is None:
            return
        lamp = (f'<div class="dyn dyn-lamp" data-collision="{str(collision).lower()}">'
                f"<i></i>{escape(text)}</div>")
        forces = "".join(
            f'<div class="dyn {name}"><span style="color:rgb{color}">&#9632;</span> {name} '
            f"<b>{escape(force)}</b></div>"
            for name, color, force in (("push", PUSH, pushed), ("estimate", ESTIMATE, estimate)))
        if lamp + forces != self._shown:
            self._shown = lamp + forces
            self._lamp.content, self._forces.content = lamp, forces

    def allow_weighing(self, allowed: bool) -> None:
        """Show or hide the button."""
        if self._weigh.visible != allowed:
            self._weigh.visible = allowed
            self._payload.visible = allowed or self._can_hang

    def show_weighing(self, busy: bool, text: str = "") -> None:
        """Show whether the robot is being weighed, and the result."""
        self._weigh.disabled = busy
        self._weigh.label = "Weighing ..." if busy else "Weigh"
        self._weight.content = line(text) if text else ""
