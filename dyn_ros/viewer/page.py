# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The page that browsers open, served on this machine only by default."""
import contextlib
import io
import socket

import viser

PORTS = 20      # number of ports to try


class PageError(Exception):
    """The page cannot be served; the message states the reason and a remedy."""


class Server(viser.ViserServer):
    """viser's server without its public tunnel."""

    def request_share_url(self, verbose: bool = True) -> None:
        """Do nothing: the page must not leave the machine."""


def serve(host: str, port: int, title: str) -> Server:
    """Serve an empty page.

    Parameters
    ----------
    host : str
        Address to listen on.
    port : int
        The first port to try; ports in use are skipped. 0: any free port.
    title : str
        Title of the main panel.

    Returns
    -------
    Server

    Raises
    ------
    PageError
        The host does not exist, or no port is free.
    """
    port = _free_port(host, port)
    with contextlib.redirect_stdout(io.StringIO()):     # viser prints its address in a box
        server = Server(host=host, port=port, label=title, verbose=False)
    server.gui.configure_theme(show_logo=False, show_share_button=False)
    return server


def address(server: Server) -> str:
    """Return the address that a browser on this machine can open."""
    host = server.get_host()
    host = {"127.0.0.1": "localhost", "0.0.0.0": "localhost", "::": "localhost"}.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{server.get_port()}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host."""
    return host == "localhost" or host.startswith("127.") or host == "::1"


def _free_port(host: str, first: int) -> int:
    try:
        family, *_, place = socket.getaddrinfo(host, first, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise PageError(f"host '{host}': {error}; use 127.0.0.1 for this machine only, or 0.0.0.0 "
                        "for all its network interfaces") from error
    for port in range(first, min(first + PORTS, 65536)):
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((place[0], port, *place[2:]))
            except OSError as error:
                reason = error
            else:
                return probe.getsockname()[1]
    raise PageError(f"no port from {first} to {port} of {host} is free ({reason.strerror}); "
                    "choose another one with the parameter port, or 0 for any free port")
