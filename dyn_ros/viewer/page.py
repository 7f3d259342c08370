# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The page that browsers open: served on this machine alone unless told otherwise."""
import contextlib
import io
import socket

import viser

PORTS = 20      # how many are tried where the first ones are taken


class PageError(Exception):
    """The page cannot be served; the message says why and what would do."""


class Server(viser.ViserServer):
    """viser's server, which never opens a tunnel to the world."""

    def request_share_url(self, verbose=True):
        """Open none: a robot's page stays on its machine."""


def serve(host, port, title):
    """Serve an empty page.

    Parameters
    ----------
    host : str
        Address to listen on.
    port : int
        The first port to try; taken ones are passed over. 0: any free one.
    title : str
        Of the main panel.

    Returns
    -------
    Server

    Raises
    ------
    PageError
        There is no such host, or no free port.
    """
    port = _free_port(host, port)
    with contextlib.redirect_stdout(io.StringIO()):     # viser tells its address in a box
        server = Server(host=host, port=port, label=title, verbose=False)
    server.gui.configure_theme(show_logo=False, show_share_button=False)
    return server


def address(server):
    """What a browser on this machine opens."""
    host = server.get_host()
    host = {"127.0.0.1": "localhost", "0.0.0.0": "localhost", "::": "localhost"}.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{server.get_port()}"


def is_loopback(host):
    """Whether no other machine reaches it."""
    return host == "localhost" or host.startswith("127.") or host == "::1"


def _free_port(host, first):
    try:
        family, *_, place = socket.getaddrinfo(host, first, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise PageError(f"host '{host}': {error}; 127.0.0.1 is this machine alone, 0.0.0.0 all of "
                        "its networks") from error
    for port in range(first, min(first + PORTS, 65536)):
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((place[0], port, *place[2:]))
            except OSError as error:
                reason = error
            else:
                return probe.getsockname()[1]
    raise PageError(f"no port from {first} to {port} of {host} is free ({reason.strerror}); take "
                    "another one (parameter port), 0 for any")
