# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Undocumented features of viser that the page needs; no other module uses them.

`test_viser_internals.py` says which feature of the page breaks if one of them changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import viser
import viser._scene_api
import viser._threadpool_exceptions
import viser._viser
import websockets.asyncio.server
from viser._messages import GuiUpdateMessage
from viser._messages import Message as Message
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.http11 import MAX_LINE_LENGTH, Request, Response
from websockets.protocol import State

Answer: TypeAlias = Callable[[ServerConnection, Request], "Response | None"]
"""A function that answers a request, or returns None to open a websocket."""

Report = Callable[[BaseException], None]
"""A function that is called with what a client has sent wrongly."""

_start_lock = threading.Lock()
_URI_TOO_LONG = b"HTTP/1.1 414 URI Too Long\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class PageError(Exception):
    """The page cannot be served; the message states the reason and a remedy."""


# --- the server


def index_html() -> str:
    """Return the page that viser serves.

    viser offers no way to add a script or a style to it.
    """
    return (Path(viser.__file__).parent / "client" / "build" / "index.html").read_text("utf-8")


class _Connection(ServerConnection):
    """A connection that answers too long request lines, and clients of another version.

    websockets closes the first ones without an answer, viser prints each of the others.
    """

    _request_line: bytes | None = b""  # as far as it has arrived; None when it is complete
    _is_refused = False

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return  # a connection that is closed before all is read is an error of the client
        if self._request_line is not None:
            line, *following = (self._request_line + data).split(b"\n", 1)
            if len(line) >= MAX_LINE_LENGTH:
                self._is_refused = True
                self.transport.write(_URI_TOO_LONG)
                self.transport.write_eof()
                return
            self._request_line = None if following else line
        super().data_received(data)

    async def handshake(self, *args: Any, **options: Any) -> None:
        try:
            await super().handshake(*args, **options)
        except Exception:  # viser hides what websockets logs
            self.logger.error("no valid request", exc_info=True)
            raise
        expected = f"viser-v{viser.__version__}"
        if self.protocol.state is State.OPEN and self.subprotocol != expected:
            client = f"{self.subprotocol or 'unknown':.40}"
            await self.close(1002, f"Version mismatch. Client: {client}, Server: {expected}")


class _ErrorLog(logging.Handler):
    """A log of websockets whose errors are reported without their tracebacks."""

    def __init__(self, report: Report) -> None:
        super().__init__(logging.ERROR)
        self._report = report

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self._report(error or RuntimeError(record.getMessage()))


def is_closed_connection(error: BaseException | None) -> bool:
    """Return True if an error is that a client has closed its connection."""
    while error is not None:
        if isinstance(error, (ConnectionClosed, ConnectionError, EOFError)):
            return True
        error = error.__cause__
    return False


@contextlib.contextmanager
def answer_requests(
    handler: Callable[[Answer, ServerConnection, Request], Response | None], report: Report
) -> Iterator[None]:
    """Let a handler answer the requests to a server that starts in this context.

    Errors of its connections are reported. viser has no options for this; it starts its server with
    `websockets.asyncio.server.serve`. Raise a `PageError` if it does not.
    """
    module: Any = websockets.asyncio.server
    is_started = False

    def serve(*args: Any, process_request: Answer, **options: Any) -> Any:
        nonlocal is_started
        is_started = True
        log = logging.Logger("dyn_ros.viewer", logging.ERROR)
        log.addHandler(_ErrorLog(report))
        asyncio.get_running_loop().set_exception_handler(
            lambda loop, context: report(
                context.get("exception") or RuntimeError(context["message"])
            )
        )
        return original(
            *args,
            process_request=partial(handler, process_request),
            create_connection=_Connection,
            logger=log,
            **options,
        )

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


def check_messages(server: viser.ViserServer, report: Report) -> None:
    """Refuse updates of controls that a page does not send; report errors of their callbacks.

    viser stores each attribute of a control that a client names, and prints tracebacks.
    """

    def check_update(client_id: int, message: GuiUpdateMessage) -> None:
        value = message.updates.get("value")
        if (
            set(message.updates) != {"value"}
            or isinstance(value, float)
            and not math.isfinite(value)
        ):
            raise ValueError(f"a control cannot have the values {message.updates}")

    server._websock_server._incoming_handlers[GuiUpdateMessage].insert(0, check_update)
    executor = server._thread_executor
    submit = executor.submit

    def submit_reported(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        def call() -> Any:
            try:
                return function(*args, **options)
            except Exception as error:
                report(error)
                return None

        return submit(call)

    executor.submit = submit_reported
    modules: tuple[Any, ...] = (viser._viser, viser._scene_api, viser._threadpool_exceptions)
    for module in modules:  # it has one function for all servers of a process
        module.print_awaited_callback_error = report
    warnings.filterwarnings("ignore", r"(?s)\[viser\] .* does not match annotation", UserWarning)


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
