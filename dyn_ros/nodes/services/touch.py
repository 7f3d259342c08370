# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Services that the viewer's page calls: weigh a payload; load and hold a simulated robot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from std_srvs.srv import SetBool

from dyn_ros.engine.spatial import Inertia

from ...srv import ClearPayload, EstimatePayload, SetPayload
from ..base.lifecycle import BaseNode
from ..messages.conversions import set_inertia

if TYPE_CHECKING:  # needs the extra `viewer`
    from dyn_ros.viewer.touch_tab import TouchTab

PAYLOAD_NAME, ESTIMATED = "weight", "estimated"


class TouchNode(BaseNode):
    """A node that calls the services of the observer and of a simulated robot for an `Actor`."""

    def open_services(self, simulated: str) -> None:
        """Create the clients; `simulated`, unless empty, is the node of the robot."""
        self._estimate = self.create_client(EstimatePayload, "observer/estimate_payload")
        self._forget = self.create_client(ClearPayload, "observer/clear_payload")
        own = {"set_payload": SetPayload, "clear_payload": ClearPayload, "hold": SetBool}
        self._simulated = {
            name: self.create_client(kind, f"{simulated}/{name}")
            for name, kind in own.items()
            if simulated
        }
        self.forget_estimate()

    def close_services(self) -> None:
        for client in (self._estimate, self._forget, *self._simulated.values()):
            self.destroy_client(client)

    def shows(self, touch: TouchTab) -> bool:
        """Whether the page still shows the robot that this belongs to."""
        raise NotImplementedError

    def forget_estimate(self) -> None:
        """Expect another robot, which has not been weighed."""
        self._weighed_before = self._applied = False

    def can_weigh(self) -> bool:
        return bool(self._estimate.service_is_ready())

    def hold(self, holds: bool) -> None:
        if self._simulated:
            self._simulated["hold"].call_async(SetBool.Request(data=holds))

    def hang(self, link: str, body: Inertia | None) -> None:
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
        """Have the observer forget the payload that it has weighed."""
        if self._applied:
            self._forget.call_async(ClearPayload.Request(name=ESTIMATED))
        self._applied = False

    def weigh(self, touch: TouchTab) -> None:
        """Have the observer estimate the payload, and apply and show the estimate."""
        request = EstimatePayload.Request(restart=not self._weighed_before, apply=True)
        self._weighed_before = True

        def done(future: Any) -> None:
            if self.shows(touch):
                self.guard("estimate_payload", self._weighed, touch, future.result())

        self._estimate.call_async(request).add_done_callback(done)

    def _weighed(self, touch: TouchTab, response: EstimatePayload.Response) -> None:
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
        touch.end_weighing(text)
