# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The page that browsers open, served on this machine only by default."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import io
import socket
import traceback
from collections.abc import Callable, Iterable
from html import escape
from http import HTTPStatus
from pathlib import Path

import numpy as np
import viser
from websockets.asyncio.server import ServerConnection
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from ...engine.kernel.types import Array
from . import viser_internals
from .trust import Trust, printable
from .trust import is_loopback as is_loopback
from .viser_internals import Answer, Message
from .viser_internals import PageError as PageError

PORT_COUNT = 20  # ports to try
MAX_REPORTED_LINES = 100  # different ones
MAX_PATH_LENGTH = 255  # bytes, of a request without its query; file systems refuse longer names
WIDE_WIDTH = 1150  # px; a wide window has room for a second panel next to the robot
TITLE = "<title>Viser</title>"
FOLDER = Path(__file__).parent

# Nothing is loaded from elsewhere, no other server is shown, no other page may contain this one.
POLICY = (
    "default-src 'self' 'unsafe-inline' 'unsafe-eval' blob: data:; "
    "connect-src 'self' ws://{host} wss://{host} blob: data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


@dataclasses.dataclass
class DynRosWindow(Message, include_in_scene_serialization=False):  # type: ignore[call-arg]
    """A browser's window, as the script page.js reports it."""

    width: int  # px
    height: int  # px
    dark: bool  # the user prefers a dark page
    software: bool = False  # the browser draws without a graphics card

    @property
    def is_wide(self) -> bool:
        return self.width >= WIDE_WIDTH


@dataclasses.dataclass
class DynRosReach(Message, include_in_scene_serialization=False):  # type: ignore[call-arg]
    """A report of page.js that the pointer has come near the ball that pulls the robot, or left."""

    reaches: bool  # the pointer is near the ball, or drags it


@dataclasses.dataclass
class DynRosSeek(Message, include_in_scene_serialization=False):  # type: ignore[call-arg]
    """A click of a user at a time of a recording, as page.js reports it.

    The fraction of the duration is from 0 to 1.
    """

    duration_fraction: float


@dataclasses.dataclass
class DynRosClick(Message, include_in_scene_serialization=False):  # type: ignore[call-arg]
    """A click of a user in the picture, as page.js reports it: a ray from the camera.

    Both vectors are in the frame of the robot's root link. The direction has any length.
    """

    origin: tuple[float, float, float]  # m
    direction: tuple[float, float, float]


class Server(viser.ViserServer):
    """viser's server without its public tunnel, which answers only trusted requests.

    `report` receives a line for each different reason why requests are refused, and for each
    different fault in what clients send, up to `MAX_REPORTED_LINES`. `windows` are by client id.
    `on_window` is called, in viser's thread, when a window opens or changes.
    `on_click` is called there with the ray (origin, direction) of a click, see `DynRosClick`;
    `on_seek` with the fraction of a recording's duration that a user has clicked.
    `reaching_clients` are the ids of clients whose pointer is near the ball that pulls the robot.
    """

    def __init__(
        self, host: str, port: int, title: str, trust: Trust, report: Callable[[str], None]
    ) -> None:
        self._trust, self._report = trust, report
        self._reported_lines: set[str] = set()
        self._index = _index_page(title)
        self.windows: dict[int, DynRosWindow] = {}
        self.reaching_clients: set[int] = set()
        self.on_window: Callable[[viser.ClientHandle, DynRosWindow], object] | None = None
        self.on_click: Callable[[Array, Array], object] | None = None
        self.on_seek: Callable[[float], object] | None = None
        with viser_internals.answer_requests(self._answer, self._report_fault):
            super().__init__(host=host, port=port, label=title, verbose=False)
        viser_internals.check_messages(self, self._report_fault)
        viser_internals.receive_messages(
            self,
            {
                DynRosWindow: self._receive_window,
                DynRosReach: self._receive_reach,
                DynRosClick: self._receive_click,
                DynRosSeek: self._receive_seek,
            },
        )
        self.on_client_disconnect(self._forget_window)

    def request_share_url(self, verbose: bool = True) -> None:
        """Do nothing: the page must not become public."""

    # --- requests

    def _answer(
        self, answer: Answer, connection: ServerConnection, request: Request
    ) -> Response | None:
        """Refuse an untrusted request; answer others as viser does, except for the page itself."""
        headers = request.headers
        refusal = self._trust.refusal(
            headers.get_all("Host"), headers.get_all("Origin"), str(connection.local_address[0])
        )
        if refusal:
            self._report_line(f"refused a request: {refusal}")
            return connection.respond(HTTPStatus.FORBIDDEN, f"dyn_ros: {refusal}.\n")
        if len(request.path.partition("?")[0]) > MAX_PATH_LENGTH:
            return connection.respond(HTTPStatus.REQUEST_URI_TOO_LONG, "The path is too long.\n")
        try:
            response = answer(connection, request)
        except Exception as error:  # such as a header that is there twice
            self._report_fault(error)
            return connection.respond(HTTPStatus.BAD_REQUEST, "The request is not valid.\n")
        if response is not None:
            if request.path.partition("?")[0] in ("/", "/index.html"):
                response = self._index_response(headers)
            response.headers["X-Content-Type-Options"] = "nosniff"
        return response

    def _index_response(self, headers: Headers) -> Response:
        """Return the page, compressed if the browser accepts it, with its security policy."""
        accepts_gzip = "gzip" in ",".join(headers.get_all("Accept-Encoding"))
        body = self._index if accepts_gzip else gzip.decompress(self._index)
        return Response(
            HTTPStatus.OK,
            "OK",
            Headers(
                {
                    "Content-Type": "text/html; charset=utf-8",
                    "Content-Length": str(len(body)),
                    "Content-Encoding": "gzip" if accepts_gzip else "identity",
                    "Cache-Control": "no-cache",
                    "Content-Security-Policy": POLICY.format(host=headers["Host"]),
                }
            ),
            body,
        )

    def _report_fault(self, error: BaseException) -> None:
        """Report an error that a client has caused, unless it has only closed its connection."""
        if not viser_internals.is_closed_connection(error):
            while error.__cause__ is not None:
                error = error.__cause__
            places = traceback.extract_tb(error.__traceback__)
            place = f" ({Path(places[-1].filename).name}:{places[-1].lineno})" if places else ""
            reason = f"{type(error).__name__}: {printable(str(error))}"
            self._report_line(f"ignored what a client sent: {reason}{place}")

    def _report_line(self, line: str) -> None:
        """Report a line once, if there were not too many different ones."""
        if line not in self._reported_lines and len(self._reported_lines) < MAX_REPORTED_LINES:
            self._reported_lines.add(line)
            self._report(line)

    # --- windows

    def _receive_window(self, client_id: int, message: DynRosWindow) -> None:
        """Store a window, and report it once viser knows its client."""
        client = self.get_clients().get(client_id)
        if client is None:
            # viser does not know the client's camera yet: try again a little later
            if viser_internals.is_connected(self, client_id):
                self.get_event_loop().call_later(0.05, self._receive_window, client_id, message)
            return
        self.windows[client_id] = message
        if self.on_window is not None:
            self.on_window(client, message)

    def _receive_reach(self, client_id: int, message: DynRosReach) -> None:
        """Store that a client's pointer has come near the ball, or left it."""
        if message.reaches:
            self.reaching_clients.add(client_id)
        else:
            self.reaching_clients.discard(client_id)

    def _receive_click(self, client_id: int, message: DynRosClick) -> None:
        """Report the ray of a click; raise a ValueError for anything but six finite numbers."""
        ray = np.array([message.origin, message.direction], float)
        if ray.shape != (2, 3) or not np.isfinite(ray).all():
            raise ValueError(f"expected a ray of six finite numbers, got {ray.tolist()}")
        if self.on_click is not None:
            self.on_click(*ray)

    def _receive_seek(self, client_id: int, message: DynRosSeek) -> None:
        """Report where a user has clicked; raise a ValueError for another number."""
        if not 0.0 <= message.duration_fraction <= 1.0:
            raise ValueError(f"expected a fraction from 0 to 1, got {message.duration_fraction}")
        if self.on_seek is not None:
            self.on_seek(message.duration_fraction)

    async def _forget_window(self, client: viser.ClientHandle) -> None:
        """Forget a client that has disconnected."""
        self.windows.pop(client.client_id, None)
        self.reaching_clients.discard(client.client_id)


def _index_page(title: str) -> bytes:
    """Return viser's page with a title, page.js and page.css, compressed by gzip."""
    text = viser_internals.index_html()
    if TITLE not in text:
        raise PageError("the page of this version of viser is not supported; install viser 1.1")
    script, style = ((FOLDER / name).read_text("utf-8") for name in ("page.js", "page.css"))
    head = f"<title>{escape(title)}</title><style>{style}</style><script>{script}</script>"
    return gzip.compress(text.replace(TITLE, head, 1).encode(), mtime=0)


def serve_page(
    host: str,
    port: int,
    title: str,
    allowed_hosts: Iterable[str] = (),
    report: Callable[[str], None] | None = None,
) -> Server:
    """Serve an empty page at the first free port from `port` on; at any free port if it is 0.

    `allowed_hosts` are names under which browsers may open the page, in addition to those of
    `Trust`; for `report` see `Server`. Raise a `PageError` if the host does not exist, an allowed
    host cannot be read, or no port is free.
    """
    try:
        trust = Trust(host, allowed_hosts)
    except ValueError as error:
        raise PageError(str(error)) from error
    port = _free_port(host, port)
    with contextlib.redirect_stdout(io.StringIO()):  # viser prints its address in a box
        server = Server(host, port, title, trust, report or (lambda line: None))
    server.gui.configure_theme(show_logo=False, show_share_button=False)
    return server


def page_address(server: Server) -> str:
    """Return the address that a browser on this machine can open."""
    host = server.get_host()
    host = {"127.0.0.1": "localhost", "0.0.0.0": "localhost", "::": "localhost"}.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{server.get_port()}"


def _free_port(host: str, first: int) -> int:
    """Return the first free port from `first` on; raise a `PageError` if there is none."""
    try:
        family, *_, socket_address = socket.getaddrinfo(host, first, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise PageError(
            f"host '{host}': {error}; use 127.0.0.1 for this machine only, or 0.0.0.0 "
            "for all its network interfaces"
        ) from error
    for port in range(first, min(first + PORT_COUNT, 65536)):
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((socket_address[0], port, *socket_address[2:]))
            except OSError as error:
                last_error = error
            else:
                return probe.getsockname()[1]
    raise PageError(
        f"no port from {first} to {port} of {host} is free ({last_error.strerror}); "
        "choose another one with port=, or 0 for any free port"
    )
