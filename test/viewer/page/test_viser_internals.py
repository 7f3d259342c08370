# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Undocumented features of viser that the page uses; a failure says what breaks."""

from types import SimpleNamespace

import pytest

pytest.importorskip("viser", reason="no viser: pip install viser")

from viser import _messages

from dyn_ros.viewer.page import page, viser_internals


@pytest.fixture
def sent(server, monkeypatch):
    """The messages to all windows."""
    messages = []
    monkeypatch.setattr(server.gui._websock_interface, "queue_message", messages.append)
    return messages


def window(sent):
    """A connected browser that records its messages."""
    interface = SimpleNamespace(queue_message=sent.append)
    return SimpleNamespace(client_id=3, gui=SimpleNamespace(_websock_interface=interface))


def test_the_page_is_in_the_installed_files():
    why = "the page has no title, script or style of ours: viser's index.html has changed"
    text = viser_internals.index_html()
    assert text.count(page.TITLE) == 1 and "<head" in text, why


def test_requests_pass_the_handler():
    why = "any web page can control the robot: viser no longer calls websockets' serve"
    with (
        pytest.raises(page.PageError, match="cannot be protected; install viser 1.1"),
        viser_internals.answer_requests(lambda answer, connection, request: None, print),
    ):
        pass
    try:
        page.serve_page("127.0.0.1", 0, "test").stop()
    except page.PageError as error:
        pytest.fail(f"{why}: {error}")


def test_messages_of_the_script_are_received(server):
    why = "the page does not adapt to its window: viser no longer knows our messages"
    kinds = _messages.Message._subclass_from_type_string()
    for kind in (page.DynRosWindow, page.DynRosReach):
        assert kinds.get(kind.__name__) is kind, why
        assert server._websock_server._incoming_handlers[kind], why


def test_clients_are_known_before_their_camera(server):
    why = "the first report of a window is lost: the server's clients have another place"
    assert viser_internals.is_connected(server, 3) is False, why
    server._websock_server._client_state_from_id[3] = None
    assert viser_internals.is_connected(server, 3) and 3 not in server.get_clients(), why
    del server._websock_server._client_state_from_id[3]


def test_properties_are_sent_as_they_are(server, sent):
    why = "plots have no gaps, or panels are the same in all windows: viser's messages have changed"
    box = server.gui.add_checkbox("box", False)
    name = viser_internals.control_id(box)
    assert isinstance(name, str) and name, why
    viser_internals.send_properties(box, {"data": (1.0, None)})
    assert isinstance(sent[-1], _messages.GuiUpdateMessage), why
    assert (sent[-1].uuid, sent[-1].updates) == (name, {"data": (1.0, None)}), why
    window_messages = []
    count = len(sent)
    viser_internals.send_properties(box, {"visible": True}, window(window_messages))
    assert window_messages[-1].updates == {"visible": True} and len(sent) == count, why


def test_tabs_can_be_hidden_in_one_window(server, sent):
    why = "the torques are in a tab although they have a panel: viser's groups of tabs have changed"
    group = server.gui.add_tab_group()
    tabs = [group.add_tab(label) for label in ("Move", "Touch", "Torques")]
    properties = {name for name in vars(group._impl.props) if name.startswith("_tab_")}
    window_messages = []
    viser_internals.show_tabs(group, lambda tab: tab is not tabs[1], window(window_messages))
    (message,) = window_messages
    assert set(message.updates) == properties, why
    assert message.updates["_tab_labels"] == ("Move", "Torques"), why
    shown = group._impl.props._tab_container_ids
    assert message.updates["_tab_container_ids"] == (shown[0], shown[2]), why
    assert group._impl.props._tab_labels == ("Move", "Touch", "Torques"), why
