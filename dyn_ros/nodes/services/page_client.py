# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Clients of services for the viewer's page: weigh a payload; load and hold a simulated robot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from std_srvs.srv import SetBool

from dyn_ros.engine.spatial import Inertia

from ...srv import ClearPayload, EstimatePayload, SetPayload
from ..base.lifecycle import BaseNode
from ..messages.message_fields import set_inertia

if TYPE_CHECKING:  # requires the extra `viewer`
    from dyn_ros.viewer.touch_tab import TouchTab

PAYLOAD_NAME, ESTIMATE_NAME = "weight", "estimated"  # names of the two payloads


class PageClient(BaseNode):
    """A node that calls services of the observer and of a simulated robot for an `Actor`."""

    def open_services(self, simulated: str) -> None:
        """Create the clients; `simulated` is the name of the simulated robot's node, or empty."""
        self._estimate = self.create_client(EstimatePayload, "observer/estimate_payload")
        self._forget = self.create_client(ClearPayload, "observer/clear_payload")
        services = {"set_payload": SetPayload, "clear_payload": ClearPayload, "hold": SetBool}
        self._simulated = {
            name: self.create_client(kind, f"{simulated}/{name}")
            for name, kind in services.items()
            if simulated
        }
        self.forget_estimate()

    def close_services(self) -> None:
        """Destroy the clients."""
        for client in (self._estimate, self._forget, *self._simulated.values()):
            self.destroy_client(client)

    def shows(self, touch: TouchTab) -> bool:
        """Return True if the page still shows the robot of a `Touch`."""
        raise NotImplementedError

    def forget_estimate(self) -> None:
        """Forget that the payload has been weighed, since the robot is another one."""
        self._weighed_before = self._applied = False

    def can_weigh(self) -> bool:
        """Return True if the observer can estimate a payload."""
        return bool(self._estimate.service_is_ready())

    def hold(self, holds: bool) -> None:
        """Hold or release the simulated robot."""
        if self._simulated:
            self._simulated["hold"].call_async(SetBool.Request(data=holds))

    def hang(self, link: str, body: Inertia | None) -> None:
        """Attach a load to a link of the simulated robot; None: remove it."""
        if not self._simulated:
            return
        self._weighed_before = False
        if body is not None:
            request = SetPayload.Request(name=PAYLOAD_NAME)
            request.inertia.header.frame_id = link
            set_inertia(request.inertia.inertia, body)
            self._simulated["set_payload"].call_async(request)
        else:
            self._simulated["clear_payload"].call_async(ClearPayload.Request(name=PAYLOAD_NAME))
        self._clear_estimate()

    def _clear_estimate(self) -> None:
        """Remove the estimated payload from the observer."""
        if self._applied:
            self._forget.call_async(ClearPayload.Request(name=ESTIMATE_NAME))
        self._applied = False

    def weigh(self, touch: TouchTab) -> None:
        """Ask the observer to estimate and apply the payload; show the estimate."""
        request = EstimatePayload.Request(restart=not self._weighed_before, apply=True)
        self._weighed_before = True

        def done(future: Any) -> None:
            if self.shows(touch):
                self.guard("estimate_payload", self._show_estimate, touch, future.result())

        self._estimate.call_async(request).add_done_callback(done)

    def _show_estimate(self, touch: TouchTab, response: EstimatePayload.Response) -> None:
        """Show a response of ~/estimate_payload on the page."""
        self._applied = self._applied or response.applied
        text = response.message
        if response.success:
            body = response.inertia.inertia
            text = f"{body.m:.3f} kg ({response.mass_lower:.3f} to {response.mass_upper:.3f})"
            if response.com_determined:
                com = [round(1e3 * x) for x in (body.com.x, body.com.y, body.com.z)]
                text += "; center of mass at {}, {}, {} mm of {}".format(
                    *com, response.inertia.header.frame_id
                )
            if not response.applied:
                text += f"; {response.message}"
        touch.end_weighing(text)
