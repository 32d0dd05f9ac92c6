"""Lets the connections between processes survive a network outage. Pure Python.

The operating system retransmits lost TCP packets for about 15 minutes, with growing pauses. gRPC shortens this to 20 s
for each connection that a server accepts (TCP_USER_TIMEOUT) and has no setting for it. The connection then breaks, and
TensorFlow cannot repeat the exchange. Processes watch each other (`peers`), so they do not need this timeout.
"""

import contextlib
import socket
import sys

from mtf_imaging.engine.processes.own_sockets import sockets_at


def keep_connections(port: int) -> None:
    """Removes the timeout of incoming connections to a port of this process; only on Linux.

    Args:
      port: the port number.
    """
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError):
        for own in sockets_at(port):
            with contextlib.suppress(OSError):  # closed in the meantime
                own.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 0)  # the system default
