# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""User input on the page, as events of the panel."""
import asyncio

import numpy as np
import pytest

pytest.importorskip("viser", reason="no viser: pip install viser")
from viser import _messages

from dyn_ros.demo.run import ARM
from dyn_ros.model.urdf import read_urdf
from dyn_ros.viewer.panel import Panel


@pytest.fixture
def panel(server, monkeypatch):
    """The panel of the arm, with a connected user."""
    monkeypatch.setattr(server.gui, "_resolve_client", lambda client_id: "a person")
    return Panel(server, "arm7", read_urdf(ARM.read_text()).joints, ["tool"], 5.0, 10.0, True)


@pytest.fixture
def slide(panel, server):
    """Do what a browser does; return when the server has processed it."""
    def slide(slot, value):
        message = _messages.GuiUpdateMessage(panel._sliders[slot]._impl.uuid, {"value": value})
        asyncio.run_coroutine_threadsafe(
            server.gui._handle_gui_updates(0, message), server.get_event_loop()).result(10.0)
    return slide


def settle(server):
    """Wait until the server's thread has done what it was given."""
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0.0), server.get_event_loop()).result(10.0)


def test_a_slide_goes_where_the_person_moved_it_while_the_robot_moves(panel, slide, server):
    for number in range(200):
        panel.show_playing(True)
        wanted = round(0.001 * (number + 1), 3)
        panel.show_positions(np.full(7, -0.5 - 0.001 * number))
        slide(1, wanted)
        panel.show_positions(np.full(7, -0.6 - 0.001 * number))
        assert panel.events.get(timeout=10.0) == ("slide", 1, wanted)
        settle(server)
        assert panel.positions[1] == wanted         # the robot moves no slider any more


def test_sliders_follow_the_robot_until_a_person_moves_one(panel, slide, server):
    panel.show_positions(np.full(7, 0.25))
    settle(server)
    assert np.all(panel.positions == 0.25) and panel.events.empty()
    slide(0, 0.5)
    panel.show_positions(np.full(7, 0.35))
    settle(server)
    assert panel.positions.tolist() == [0.5] + 6 * [0.25]
    panel.show_playing(True)
    panel.show_positions(np.full(7, 0.35))
    settle(server)
    assert np.all(panel.positions == 0.35)
