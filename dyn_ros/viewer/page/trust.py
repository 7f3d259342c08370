# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Which requests the page answers: a web page of somebody else must not read or move the robot.

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

PLACE = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9_]([a-z0-9._-]*[a-z0-9_])?)\.?(?::([0-9]{1,5}))?")
ORIGIN = re.compile(r"(https?)://(.+)")
PORTS = {"http": 80, "https": 443}
EVERYWHERE = ("0.0.0.0", "::", "")  # hosts to listen on all network interfaces


class Place(NamedTuple):
    """A host, in lower case and without brackets, and a port, if there is one."""

    host: str
    port: int | None


def read_place(text: str) -> Place:
    """Read "host", "host:port" or "[address]:port"; raise a ValueError if it is none of them."""
    match = PLACE.fullmatch(text.strip().lower())
    if match is None or int(match[3] or 0) > 65535:
        raise ValueError(
            f"expected a host such as robot.local or robot.local:8080, but got '{text}'"
        )
    return Place(match[1].strip("[]"), int(match[3]) if match[3] else None)


def read_address(host: str) -> IPv4Address | IPv6Address | None:
    """Return the IP address that a host is; None if it is a name."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host."""
    address = read_address(host)
    return host == "localhost" if address is None else address.is_loopback


class Trust:
    """Decides which requests to answer.

    Accepted are requests for a loopback host, for the host that is served, and for allowed hosts.
    If other machines can reach the page, so are the name and the addresses of this machine. A web
    page may open a connection if its origin is what the request is for, or an allowed host.
    Programs that are not browsers send no origin.

    An allowed host without a port is allowed with any; a ValueError if it cannot be read.
    """

    def __init__(self, host: str, allowed: Iterable[str] = ()) -> None:
        try:
            self._allowed = {read_place(text) for text in allowed}
        except ValueError as error:
            raise ValueError(f"allowed_hosts: {error}") from error
        self._names = {host.lower()} - set(EVERYWHERE)
        self._own_addresses = not is_loopback(host)
        if self._own_addresses:
            name = socket.gethostname().lower()
            self._names |= {name, name.partition(".")[0] + ".local"}

    def refusal(self, hosts: list[str], origins: list[str], address: str) -> str:
        """Return why a request is refused, and what would do; empty: it is accepted.

        `hosts` and `origins` are the values of its headers Host and Origin; `address` is the one of
        this machine that it arrived at.
        """
        try:
            (requested,) = map(read_place, hosts)
        except ValueError:
            return f"a request must name one host, but got {', '.join(hosts) or 'none'}"
        if not self._accepts(requested, address):
            return (
                f"the host '{requested.host}' is not allowed; open the page under another "
                f"address, such as localhost, or add '{requested.host}' to allowed_hosts"
            )
        for origin in origins:
            if not self._is_own(origin, requested):
                return (
                    f"a web page of '{origin}' must not use this one; if it is yours, add its "
                    "host to allowed_hosts"
                )
        return ""

    def _accepts(self, place: Place, address: str) -> bool:
        if is_loopback(place.host) or place.host in self._names or self._is_allowed(place):
            return True
        requested = read_address(place.host)
        return self._own_addresses and requested is not None and requested == read_address(address)

    def _is_allowed(self, place: Place) -> bool:
        return place in self._allowed or Place(place.host, None) in self._allowed

    def _is_own(self, origin: str, requested: Place) -> bool:
        """Whether an origin is what was requested, or allowed."""
        match = ORIGIN.fullmatch(origin.strip().lower())
        if match is None:
            return False
        try:
            place = read_place(match[2])
        except ValueError:
            return False
        place = Place(place.host, place.port or PORTS[match[1]])
        return place == Place(
            requested.host, requested.port or PORTS[match[1]]
        ) or self._is_allowed(place)
