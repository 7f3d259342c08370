# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What a client sends wrongly is one line in the log, and no traceback; the page goes on."""

import dataclasses
import os
import random
import socket
import struct
import time

import pytest

pytest.importorskip("viser", reason="no viser: pip install viser")

import msgspec
import viser
from viser._messages import Message
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from dyn_ros.demo.run import ARM
from dyn_ros.engine.model.urdf import read_urdf
from dyn_ros.viewer.page import page
from dyn_ros.viewer.page.panel import Panel
from dyn_ros.viewer.scene.camera import Cameras

from .client_messages import CAMERA

HERE, VERSION = "127.0.0.1", f"viser-v{viser.__version__}"
UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


@pytest.fixture
def arm(capfd):
    """A page with an arm, its panel, and the lines of its log; nothing is printed."""
    lines = []
    server = page.serve_page(HERE, 0, "test", [], lines.append)
    Cameras(server)
    panel = Panel(
        server, "arm7", read_urdf(ARM.read_text()).joints, ["tool"], 5.0, True, pushed_link="tool"
    )
    yield server, panel, lines
    with open_page(server) as client:  # the page still works
        assert len(client.recv(timeout=30.0)) > 1000
    server.stop()
    printed = "".join(capfd.readouterr()).replace("(viser) Server stopped\n", "")
    assert printed == ""


def open_page(server, version=VERSION):
    address = f"ws://localhost:{server.get_port()}/"
    return connect(address, subprotocols=[version], max_size=None, close_timeout=1.0)


def send_raw(server, data):
    """Send bytes; return the beginning of the answer, empty if the connection is closed."""
    with socket.create_connection((HERE, server.get_port()), timeout=10.0) as plug:
        plug.sendall(data)
        try:
            return plug.recv(100)
        except ConnectionResetError:
            return b""


def wait_for_lines(lines, count):
    deadline = time.monotonic() + 10.0
    while len(lines) < count and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    assert len(lines) == count, lines


@pytest.mark.parametrize(
    "path, headers, status, count",
    [
        (b"/", b"Host: \xff\xfe\r\n", 403, 1),
        (b"/", "Host: \u00e4.example\r\n".encode(), 403, 1),
        (b"/", b"Host: " + 8000 * b"a" + b"\r\n", 403, 1),
        (b"/", b"Host: localhost\r\nOrigin: http://\xff\r\n", 403, 1),
        (b"/\xff", b"Host: localhost\r\n", 404, 0),
        (b"/" + 254 * b"a", b"Host: localhost\r\n", 404, 0),
        (b"/" + 255 * b"a", b"Host: localhost\r\n", 414, 0),
        (b"/" + 8000 * b"a", b"Host: localhost\r\n", 414, 0),
        (b"/" + 9000 * b"a", b"Host: localhost\r\n", 414, 0),
        (b"/" + 1_000_000 * b"a", b"Host: localhost\r\n", 414, 0),
        (b"/", b"Host: localhost\r\nUpgrade: a\r\nUpgrade: b\r\n", 400, 1),
        (b"/", b"Host: localhost\r\nAccept-Encoding: gzip\r\nAccept-Encoding: gzip\r\n", 400, 1),
    ],
)
def test_requests_that_are_wrong(arm, path, headers, status, count):
    server, _, lines = arm
    for _ in range(3):
        answer = send_raw(server, b"GET " + path + b" HTTP/1.1\r\n" + headers + b"\r\n")
        assert answer.startswith(b"HTTP/1.1 %d " % status)
    wait_for_lines(lines, count)
    assert all(line.isascii() and len(line) < 600 for line in lines)


@pytest.mark.parametrize(
    "data, reason",
    [
        (b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n", "unsupported HTTP method"),
        (b"GET / HTTP/1.0\r\n\r\n", "unsupported protocol"),
        (b"\x16\x03\x01\x02\r\n\r\n", "invalid HTTP request line"),
        (b"GET / HTTP/1.1\r\nX: " + 9000 * b"a" + b"\r\n\r\n", "line too long"),
        (b"GET / HTTP/1.1\r\n" + 200 * b"X: a\r\n" + b"\r\n", "too many HTTP headers"),
    ],
)
def test_what_is_no_request(arm, data, reason):
    server, _, lines = arm
    for _ in range(3):
        assert send_raw(server, data) == b""
    wait_for_lines(lines, 1)
    assert reason in lines[0] and lines[0].startswith("ignored what a client sent: ")


@pytest.mark.parametrize(
    "start",
    [
        b"",
        b"GET / HT",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n",
        UPGRADE + f"Sec-WebSocket-Protocol: {VERSION}\r\n\r\n".encode(),
        UPGRADE + f"Sec-WebSocket-Protocol: {VERSION}\r\n\r\n".encode() + b"\x82\x85\1\2",
    ],
)
@pytest.mark.parametrize("is_reset", [False, True])
def test_a_connection_that_closes_is_nothing(arm, start, is_reset):
    server, _, lines = arm
    for delay in (0.0, 0.1):
        with socket.create_connection((HERE, server.get_port()), timeout=10.0) as plug:
            if is_reset:
                plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            plug.sendall(start)
            time.sleep(delay)
    wait_for_lines(lines, 0)


@pytest.mark.parametrize("version, count", [("viser-v0", 0), ("viser-v[/]", 1), ("other", 0)])
def test_a_client_of_another_version(arm, version, count):
    server, _, lines = arm
    for _ in range(3):
        send_raw(server, UPGRADE + f"Sec-WebSocket-Protocol: {version}\r\n\r\n".encode())
    wait_for_lines(lines, count)
    with open_page(server, "viser-v0") as client, pytest.raises(ConnectionClosed) as closed:
        client.recv(timeout=10.0)
    assert closed.value.rcvd.code == 1002 and "Version mismatch" in closed.value.rcvd.reason


@pytest.mark.parametrize(
    "message",
    [
        "text",
        b"",
        b"\xc1",
        b"\x91" * 30_000 + b"\x01",
        [1, 2],
        3,
        {"a": 1},
        {"type": "Unknown"},
        {"type": [3]},
        {"type": "ViewerCameraMessage"},
        {**CAMERA, "wxyz": None},
        {**CAMERA, "up_direction": [[0, 0, 1]]},
        {"type": "DynRosWindow", "width": "x", "height": None, "dark": []},
        {"type": "DynRosWindow", "width": 1, "height": 1, "dark": True, "more": 1},
    ],
)
def test_messages_that_are_wrong(arm, message):
    server, _, lines = arm
    data = message if isinstance(message, (str, bytes)) else msgspec.msgpack.encode(message)
    for _ in range(3):
        with open_page(server) as client:
            client.send(data)
            time.sleep(0.1)
    wait_for_lines(lines, 1)
    assert "\n" not in lines[0] and lines[0].startswith("ignored what a client sent: ")


@pytest.mark.parametrize("updates", [{"value": float("nan")}, {"value": "x"}, {"update_cb": 3}, 3])
def test_controls_keep_their_values(arm, updates):
    server, panel, lines = arm
    slider = panel._sliders[1]
    value = slider.value
    update = {"type": "GuiUpdateMessage", "uuid": slider._impl.uuid, "updates": updates}
    with open_page(server) as client:
        for message in (CAMERA, update):
            client.send(msgspec.msgpack.encode(message))
        wait_for_lines(lines, 1)
    assert slider.value == value and panel.events.empty()


def test_random_messages(arm):
    """Every kind of message, with values of other types."""
    server, panel, lines = arm
    choose = random.Random(1)
    kinds = Message._subclass_from_type_string()
    controls = [slider._impl.uuid for slider in panel._sliders]
    values = [None, True, 0, -1, 2**62, 1e308, float("nan"), "", "x", b"\0", [], [1, 2, 3], {}]
    values += [[[1]], {"value": 0.2}, {"value": "x"}, *controls]

    def random_message():
        kind = choose.choice([*kinds, "ViewerCameraMessage", "GuiUpdateMessage"])
        names = [field.name for field in dataclasses.fields(kinds[kind]) if field.init]
        message = {"type": kind, **{name: choose.choice(values) for name in names}}
        if kind == "ViewerCameraMessage":
            message |= {name: CAMERA[name] for name in CAMERA if choose.random() < 0.9}
        return msgspec.msgpack.encode(message)

    for _ in range(30):
        try:
            with open_page(server) as client:
                client.send(msgspec.msgpack.encode(CAMERA))
                for _ in range(10):
                    client.send(random_message())
        except ConnectionClosed:
            pass
    assert 0 < len(lines) <= page.MAX_REPORTED_LINES


def test_few_lines_are_reported(arm, monkeypatch):
    server, _, lines = arm
    monkeypatch.setattr(page, "MAX_REPORTED_LINES", 3)
    for _ in range(10):
        send_raw(server, os.urandom(30).hex().encode() + b"\r\n\r\n")
    wait_for_lines(lines, 3)
