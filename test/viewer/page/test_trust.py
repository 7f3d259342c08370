# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Web pages of others neither read the robot nor move it."""

import http.client
import socket

import pytest

pytest.importorskip("viser", reason="no viser: pip install viser")

import msgspec
import viser
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from dyn_ros.demo.run import ARM
from dyn_ros.engine.model.urdf import read_urdf
from dyn_ros.viewer.page import page
from dyn_ros.viewer.page.panel import Panel
from dyn_ros.viewer.page.trust import Trust, read_host_port

from .client_messages import CAMERA

HERE, LAN = "127.0.0.1", "192.168.1.7"


def accepts(served, host, origin=None, allowed=(), address=HERE):
    return not Trust(served, allowed).refusal([host], [] if origin is None else [origin], address)


@pytest.mark.parametrize(
    "host",
    [
        "localhost:8080",
        "localhost",
        "LOCALHOST:8080",
        "localhost.:8080",
        "127.0.0.1:8080",
        "127.1.2.3",
        "[::1]:8080",
        "[::1]",
        "[::ffff:127.0.0.1]:8080",
        "localhost:9999",
    ],
)
def test_loopback_is_accepted(host):
    """Also forwarded to another port, as by ssh -L."""
    assert accepts(HERE, host)
    assert accepts(HERE, host, f"http://{host}")
    assert accepts("0.0.0.0", host, f"http://{host}")


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:8080",
        "localhost.evil.example:8080",
        "127.0.0.1.evil.example",
        "10.0.0.1:8080",
        "evil.example@localhost",
        "localhost:8080:8080",
        "localhost:x",
        "localhost:99999",
        "",
        "[::2]",
        "local host",
        "localhost/..",
        "0x7f000001",
        "0.0.0.0:8080",
        "localhost..",
        ".localhost",
        f"{socket.gethostname()}:8080",
    ],
)
def test_other_hosts_are_refused(host):
    """A host name that resolves to this machine is DNS rebinding."""
    assert not accepts(HERE, host, f"http://{host}")
    assert not accepts(HERE, host)


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "http://localhost:3000",
        "http://localhost",
        "http://127.0.0.1:8080",
        "http://localhost:8080.evil.example",
        "http://evil.example/localhost:8080",
        "null",
        "",
        "file://",
        "http://localhost:8080@evil.example",
        "ftp://localhost:8080",
        "chrome-extension://abc",
    ],
)
def test_other_origins_are_refused(origin):
    assert not accepts(HERE, "localhost:8080", origin)


def test_a_request_without_one_host_is_refused():
    assert Trust(HERE).refusal([], [], HERE)
    assert Trust(HERE).refusal(["localhost", "localhost"], [], HERE)


def test_default_ports():
    assert accepts(HERE, "localhost", "http://localhost:80")
    assert accepts(HERE, "localhost:443", "https://localhost")
    assert not accepts(HERE, "localhost", "https://localhost:8443")


def test_a_page_for_the_network():
    """It is known by the name and the address of this machine, and no other."""
    name = socket.gethostname().lower()
    for host in (f"{name}:8080", f"{name.partition('.')[0]}.local:8080", f"{LAN}:8080"):
        assert accepts("0.0.0.0", host, f"http://{host}", address=LAN)
        assert not accepts("0.0.0.0", host, "http://evil.example", address=LAN)
    assert accepts("::", f"{LAN}:8080", f"http://{LAN}:8080", address=f"::ffff:{LAN}")
    assert accepts("::", "[fe80::1]:8080", "http://[fe80::1]:8080", address="fe80::1%eth0")
    assert not accepts("0.0.0.0", "192.168.1.8:8080", address=LAN)
    assert not accepts("0.0.0.0", "evil.example:8080", address=LAN)
    assert accepts("robot.lan", "ROBOT.lan:8080", "http://robot.lan:8080", address=LAN)


def test_allowed_hosts():
    assert accepts(HERE, "robot.lan:8080", "http://robot.lan:8080", ["Robot.lan"])
    assert accepts(HERE, "robot.lan:81", "http://robot.lan:81", ["robot.lan:81"])
    assert not accepts(HERE, "robot.lan:80", "http://robot.lan", ["robot.lan:81"])
    # a proxy that passes requests on under the name localhost
    assert accepts(HERE, "localhost:8080", "https://robot.lan", ["robot.lan"])
    assert not accepts(HERE, "localhost:8080", "https://other.lan", ["robot.lan"])


@pytest.mark.parametrize(
    "text", ["", "a b", "http://robot", "robot:99999", "*", "robot/x", "\u00e4"]
)
def test_allowed_hosts_that_cannot_be_read(text):
    with pytest.raises(ValueError, match=r"allowed_hosts: .* got"):
        Trust(HERE, [text])
    with pytest.raises(page.PageError, match="allowed_hosts"):
        page.serve_page(HERE, 0, "test", [text])


def test_places():
    assert read_host_port("[::1]:80") == ("::1", 80) and read_host_port("A.b") == ("a.b", None)


# A server

SUBPROTOCOL = f"viser-v{viser.__version__}"


@pytest.fixture
def arm():
    """A page with an arm, its panel, and the refused requests."""
    refused = []
    server = page.serve_page(HERE, 0, "test", ["robot.lan"], refused.append)
    panel = Panel(
        server, "arm7", read_urdf(ARM.read_text()).joints, ["tool"], 5.0, True, pushed_link="tool"
    )
    yield server, panel, refused
    server.stop()


def slide(panel, value):
    """Return the message of a browser when a user moves the second slider."""
    return {
        "type": "GuiUpdateMessage",
        "uuid": panel._sliders[1]._impl.uuid,
        "updates": {"value": value},
    }


def use(server, panel, host, origin):
    """Read what the page shows, and move a slider, as a program that claims to be a browser."""
    with (
        socket.create_connection((HERE, server.get_port())) as plug,
        connect(
            f"ws://{host}/", sock=plug, origin=origin, subprotocols=[SUBPROTOCOL], max_size=None
        ) as client,
    ):
        read = client.recv(timeout=30.0)
        for message in (CAMERA, slide(panel, 0.5)):
            client.send(msgspec.msgpack.encode(message))
        while (event := panel.events.get(timeout=30.0))[0] != "slide":
            pass
    return len(read), event


@pytest.mark.parametrize(
    "host, origin",
    [
        ("localhost:{}", "http://localhost:{}"),
        ("localhost:{}", None),
        ("[::1]:9999", None),
        ("localhost:9999", "http://localhost:9999"),
        ("robot.lan", "http://robot.lan"),
        ("localhost:{}", "https://robot.lan"),
    ],
)
def test_a_trusted_page_reads_and_moves(arm, host, origin):
    server, panel, refused = arm
    port = server.get_port()
    read, event = use(server, panel, host.format(port), origin and origin.format(port))
    assert read > 1000 and event[:2] == ("slide", 1) and event[2] == pytest.approx(0.5, abs=1e-3)
    assert refused == []


@pytest.mark.parametrize(
    "host, origin, word",
    [
        ("localhost:{}", "http://evil.example", "evil.example"),
        ("localhost:{}", "http://localhost:3000", "localhost:3000"),
        ("localhost:{}", "null", "null"),
        ("evil.example:{}", "http://evil.example:{}", "allowed_hosts"),
        ("evil.example", None, "add 'evil.example' to allowed_hosts"),
    ],
)
def test_a_page_of_somebody_else_does_neither(arm, host, origin, word):
    server, panel, refused = arm
    port = server.get_port()
    for _ in range(3):
        with pytest.raises(InvalidStatus) as failure:
            use(server, panel, host.format(port), origin and origin.format(port))
        assert failure.value.response.status_code == 403
        assert word in failure.value.response.body.decode()
    assert panel.events.empty() and server.get_clients() == {}
    assert len(refused) == 1 and word in refused[0]


def get(server, path, **headers):
    connection = http.client.HTTPConnection(HERE, server.get_port(), timeout=30.0)
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    return response, response.read().decode()


def test_the_page_is_refused_under_another_name(arm):
    server, _, refused = arm
    response, text = get(server, "/", Host="evil.example")
    assert response.status == 403 and "allowed_hosts" in text and "<" not in text
    assert len(refused) == 1


@pytest.mark.parametrize("path", ["/", "/index.html", "/?a=b"])
def test_the_page(arm, path):
    server, _, refused = arm
    response, text = get(server, path)
    assert response.status == 200 and "<title>test</title>" in text and "#dyn-lost" in text
    policy = response.headers["Content-Security-Policy"]
    assert f"ws://{HERE}:{server.get_port()} " in policy and "frame-ancestors 'none'" in policy
    assert get(server, "/../_infra.py")[0].status == 404
    assert refused == []


def test_few_refusals_are_reported(arm, monkeypatch):
    server, _, refused = arm
    monkeypatch.setattr(page, "MAX_REPORTED_LINES", 3)
    for number in range(5):
        assert get(server, "/", Host=f"evil{number}.example")[0].status == 403
    assert len(refused) == 3


def test_a_viser_that_starts_its_server_in_another_way(monkeypatch):
    monkeypatch.setattr(viser.ViserServer, "__init__", lambda self, **options: None)
    with pytest.raises(page.PageError, match=r"viser 1\.1"):
        page.serve_page(HERE, 0, "test")


def test_a_viser_with_another_page(monkeypatch):
    monkeypatch.setattr(page, "TITLE", "<title>Other</title>")
    with pytest.raises(page.PageError, match=r"viser 1\.1"):
        page.serve_page(HERE, 0, "test")
