"""Lets the connections between processes survive an outage of the network. Pure Python.

The system repeats lost TCP packets for about 15 minutes, with growing pauses. gRPC shortens this to 20 s for each
connection that a server accepts (TCP_USER_TIMEOUT), and has no setting for it. The connection then breaks, and
TensorFlow cannot repeat the exchange. Processes watch each other (`peers`), so they do not need this timeout.
"""

import contextlib
import os
import socket

_OPEN_FILES = "/proc/self/fd"  # only on Linux


class Connections:
    """The connections that other processes have opened to a port of this process.

    Args:
      port: the TCP port.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._seen: set[str] = set()  # all sockets of the last call

    def keep(self) -> None:
        """Removes the timeout of connections that are new since the last call; does nothing except on Linux."""
        sockets: dict[str, int] = {}
        with contextlib.suppress(OSError):
            for name in os.listdir(_OPEN_FILES):
                with contextlib.suppress(OSError):  # closed since it was listed
                    link = os.readlink(f"{_OPEN_FILES}/{name}")
                    if link.startswith("socket:"):
                        sockets[link] = int(name)
        for link in sockets.keys() - self._seen:
            with contextlib.suppress(OSError), socket.fromfd(sockets[link], socket.AF_INET, socket.SOCK_STREAM) as own:
                if own.getsockname()[1:2] == (self._port,):
                    own.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 0)  # the default of the system
        self._seen = set(sockets)
