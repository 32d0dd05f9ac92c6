"""Finds the TCP sockets that TensorFlow has opened in this process, to set options that TensorFlow lacks. Pure Python.

Linux lists the open files of a process.
"""

import os
import socket
from collections.abc import Iterator

_OPEN_FILES = "/proc/self/fd"


def sockets_at(port: int) -> Iterator[socket.socket]:
    """Yields the TCP sockets of this process on one of its ports. They stay open.

    Args:
      port: the port number.

    Raises:
      OSError: the system does not list the open files.
    """
    for name in os.listdir(_OPEN_FILES):
        try:
            own = socket.socket(fileno=int(name))
        except OSError:  # not a socket, or closed in the meantime
            continue
        try:
            is_tcp = own.family in (socket.AF_INET, socket.AF_INET6) and own.type == socket.SOCK_STREAM
            if is_tcp and own.getsockname()[1] == port:
                yield own
        finally:
            own.detach()
