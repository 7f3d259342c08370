# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Undocumented features of viser that the page needs; no other module uses them.

`test_viser_internals.py` says which feature of the page breaks if one of them changes.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import viser
import websockets.asyncio.server
from viser._messages import GuiUpdateMessage
from viser._messages import Message as Message
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

Answer: TypeAlias = Callable[[ServerConnection, Request], "Response | None"]
"""A function that answers a request, or returns None to open a websocket."""

_start_lock = threading.Lock()


class PageError(Exception):
    """The page cannot be served; the message states the reason and a remedy."""


# --- the server


def index_html() -> str:
    """Return the page that viser serves.

    viser offers no way to add a script or a style to it.
    """
    return (Path(viser.__file__).parent / "client" / "build" / "index.html").read_text("utf-8")


@contextlib.contextmanager
def answer_requests(
    handler: Callable[[Answer, ServerConnection, Request], Response | None],
) -> Iterator[None]:
    """Let a handler answer the requests to a server that starts in this context.

    viser has no option for this; it starts its server with `websockets.asyncio.server.serve`.
    Raise a `PageError` if it does not.
    """
    module: Any = websockets.asyncio.server
    is_started = False

    def serve(*args: Any, process_request: Answer, **options: Any) -> Any:
        nonlocal is_started
        is_started = True
        return original(*args, process_request=partial(handler, process_request), **options)

    with _start_lock:
        original, module.serve = module.serve, serve
        try:
            yield
        finally:
            module.serve = original
    if not is_started:
        raise PageError("the page of this version of viser cannot be protected; install viser 1.1")


# --- messages from the page's script


def receive_messages(
    server: viser.ViserServer, handlers: Mapping[type[Message], Callable[[int, Any], object]]
) -> None:
    """Call a handler, in viser's thread, with the client's id and each message of a type.

    viser handles only messages of its own controls, and remembers the types that it has found.
    """
    Message._subclass_from_type_string.cache_clear()
    for message_type, handler in handlers.items():
        server._websock_server.register_handler(message_type, handler)


def is_connected(server: viser.ViserServer, client_id: int) -> bool:
    """Return True if a client is connected, even before its camera is known.

    `get_clients` lacks it until then.
    """
    return client_id in server._websock_server._client_state_from_id


# --- controls


def control_id(control: Any) -> str:
    """Return the id of a control in the page, to which styles can refer.

    No public property of a control has it.
    """
    uuid: str = control._impl.uuid
    return uuid


def send_properties(
    control: Any, properties: Mapping[str, Any], client: viser.ClientHandle | None = None
) -> None:
    """Set properties of a control without conversion, in one window or in all windows.

    Assigning to the control converts arrays (None becomes NaN) and changes it in all windows.
    """
    gui = control._impl.gui_api if client is None else client.gui
    gui._websock_interface.queue_message(GuiUpdateMessage(control._impl.uuid, dict(properties)))


def show_tabs(group: Any, is_shown: Callable[[Any], bool], client: viser.ClientHandle) -> None:
    """Show only some tabs of a group in one window.

    A tab has no property for this, and removing it removes it from all windows.
    """
    tabs = [tab for tab in group._tab_handles if is_shown(tab)]
    send_properties(
        group,
        {
            "_tab_labels": tuple(tab._label for tab in tabs),
            "_tab_icons_html": (None,) * len(tabs),
            "_tab_container_ids": tuple(tab._id for tab in tabs),
        },
        client,
    )
