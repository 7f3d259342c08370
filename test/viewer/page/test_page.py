# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Hosts and ports at which the page is served."""

import socket

import pytest

pytest.importorskip("viser", reason="no viser: pip install viser")

from dyn_ros.viewer.page import page


def test_a_port_that_is_taken_is_passed_over(server):
    second = page.serve_page("127.0.0.1", server.get_port(), "other")
    try:
        assert server.get_port() < second.get_port() < server.get_port() + page.PORT_COUNT
        assert page.page_address(second) == f"http://localhost:{second.get_port()}"
    finally:
        second.stop()


def test_no_port_is_free(server, monkeypatch):
    monkeypatch.setattr(page, "PORT_COUNT", 1)
    with pytest.raises(page.PageError, match=f"{server.get_port()}.*with port="):
        page.serve_page("127.0.0.1", server.get_port(), "other")


@pytest.mark.parametrize("host", ["no.such.host.invalid", "300.1.1.1", "\udcff"])
def test_no_such_host(host):
    with pytest.raises(page.PageError, match="host"):
        page.serve_page(host, 0, "other")


def test_this_machine_alone(server):
    """On loopback: an address of the machine that others reach does not answer."""
    assert server.get_host() == "127.0.0.1"
    with socket.socket() as client:
        client.settimeout(5.0)
        with pytest.raises(OSError):
            client.connect(("127.0.0.2", server.get_port()))
    with socket.socket() as client:
        client.settimeout(5.0)
        client.connect(("127.0.0.1", server.get_port()))


@pytest.mark.parametrize(
    "host, alone",
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("192.168.1.5", False),
        ("::", False),
    ],
)
def test_loopback(host, alone):
    assert page.is_loopback(host) == alone


def test_no_tunnel_to_the_world(server):
    assert server.request_share_url() is None
