# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Trust in requests to the page: a web page of somebody else must not read or move the robot.

A browser lets any web page open websockets to this machine, and sends along where that page
comes from (Origin). A web page can also have its own host name resolve to this machine later (DNS
rebinding); the browser then sends that name (Host).
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

HOST_PORT = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9_]([a-z0-9._-]*[a-z0-9_])?)\.?(?::([0-9]{1,5}))?")
ORIGIN = re.compile(r"(https?)://(.+)")
DEFAULT_PORTS = {"http": 80, "https": 443}
WILDCARD_HOSTS = ("0.0.0.0", "::", "")  # all network interfaces


class HostPort(NamedTuple):
    """A host, in lower case and without brackets, and a port, if there is one."""

    host: str
    port: int | None


def read_host_port(text: str) -> HostPort:
    """Read "host", "host:port" or "[address]:port"; raise a ValueError for any other text."""
    match = HOST_PORT.fullmatch(text.strip().lower())
    if match is None or int(match[3] or 0) > 65535:
        raise ValueError(
            f"expected a host such as robot.local or robot.local:8080, but got '{text}'"
        )
    return HostPort(match[1].strip("[]"), int(match[3]) if match[3] else None)


def printable(text: str) -> str:
    """Return what a client sent as one short line of ASCII, in which other bytes are escaped."""
    line = text.encode("ascii", "backslashreplace").decode()
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in line)[:200]


def read_address(host: str) -> IPv4Address | IPv6Address | None:
    """Return a host as an IP address; None if it is a name."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach a host."""
    address = read_address(host)
    return host == "localhost" if address is None else address.is_loopback


class Trust:
    """A rule that decides which requests to answer.

    It accepts requests for a loopback host, for the host that is served, and for allowed hosts. If
    other machines can reach the page, it also accepts the name and the addresses of this machine.
    A web page may open a connection if its origin is the host of the request, or an allowed host.
    Programs that are not browsers send no origin.

    An allowed host without a port is allowed with any port. Raise a ValueError if one cannot be
    read.
    """

    def __init__(self, host: str, allowed_hosts: Iterable[str] = ()) -> None:
        try:
            self._allowed_hosts = {read_host_port(text) for text in allowed_hosts}
        except ValueError as error:
            raise ValueError(f"allowed_hosts: {error}") from error
        self._names = {host.lower()} - set(WILDCARD_HOSTS)
        self._is_public = not is_loopback(host)
        if self._is_public:
            name = socket.gethostname().lower()
            self._names |= {name, name.partition(".")[0] + ".local"}

    def refusal(self, hosts: list[str], origins: list[str], address: str) -> str:
        """Return the reason why a request is refused, and a remedy; empty if it is accepted.

        `hosts` and `origins` are the values of its headers Host and Origin; `address` is the
        address of this machine at which it arrived.
        """
        try:
            (requested,) = map(read_host_port, hosts)
        except ValueError:
            return f"a request must name one host, but got {printable(', '.join(hosts)) or 'none'}"
        if not self._accepts(requested, address):
            host = printable(requested.host)
            return (
                f"the host '{host}' is not allowed; open the page under another "
                f"address, such as localhost, or add '{host}' to allowed_hosts"
            )
        for origin in origins:
            if not self._accepts_origin(origin, requested):
                return (
                    f"a web page of '{printable(origin)}' must not use this one; if it is yours, "
                    "add its host to allowed_hosts"
                )
        return ""

    def _accepts(self, requested: HostPort, address: str) -> bool:
        """Return True if requests for a host that arrive at an address are accepted."""
        host = requested.host
        if is_loopback(host) or host in self._names or self._is_allowed(requested):
            return True
        requested_address = read_address(host)
        return (
            self._is_public
            and requested_address is not None
            and requested_address == read_address(address)
        )

    def _is_allowed(self, host_port: HostPort) -> bool:
        """Return True if a host is allowed, with this port or with any."""
        allowed = self._allowed_hosts
        return host_port in allowed or HostPort(host_port.host, None) in allowed

    def _accepts_origin(self, origin: str, requested: HostPort) -> bool:
        """Return True if an origin is the requested host, or an allowed one."""
        match = ORIGIN.fullmatch(origin.strip().lower())
        if match is None:
            return False
        try:
            source = read_host_port(match[2])
        except ValueError:
            return False
        default_port = DEFAULT_PORTS[match[1]]
        source = HostPort(source.host, source.port or default_port)
        return source == HostPort(
            requested.host, requested.port or default_port
        ) or self._is_allowed(source)
