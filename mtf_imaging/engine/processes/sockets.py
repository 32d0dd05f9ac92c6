"""Sets options of the TCP sockets that TensorFlow has opened in this process, which TensorFlow lacks. Pure Python.

- The port of a process is closed to other hosts. TensorFlow's server listens on all addresses of a host, so its sockets
  are bound to the loopback interface after it has opened them. Linux permits this without privileges since version 5.7.
- Connections survive a network outage. The operating system retransmits lost TCP packets for about 15 minutes, with
  growing pauses. gRPC shortens this to 20 s for each connection that a server accepts (TCP_USER_TIMEOUT) and has no
  setting for it. The connection then breaks, and TensorFlow cannot repeat the exchange. Processes watch each other
  (`peers`), so they do not need this timeout.
"""

import contextlib
import logging
import os
import socket
import sys
from collections.abc import Iterator

from mtf_imaging.engine.processes.addresses import Address
from mtf_imaging.engine.processes.processes import Processes
from mtf_imaging.errors import reason

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


_logger = logging.getLogger(__name__)
_LOOPBACK = b"lo\0"  # the name of the loopback interface on Linux


def close_to_other_hosts(processes: Processes) -> None:
    """Closes the TCP port of this process to other hosts, if all processes are on this host.

    Process 0 logs a warning if this is not possible.

    Args:
      processes: the processes.
    """
    why = bind_to_loopback(processes.own.port) if processes.own.is_loopback else None
    if why and processes.is_first:
        _logger.warning(
            "other hosts can connect to the ports of the processes and run code as your user: %s. Fix: block the ports "
            "with a firewall, or start the processes in a network of their own",
            why,
        )


def bind_to_loopback(port: int) -> str | None:
    """Closes a TCP port on which this process listens to all other hosts.

    Existing connections from other hosts are closed. Processes on this host can still connect.

    Args:
      port: the port number.

    Returns:
      None, or the reason that the port stays open to other hosts.
    """
    if sys.platform != "linux":
        return "only Linux can bind the port to the loopback interface"
    num_listeners = 0
    try:
        for own in sockets_at(port):
            if own.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                own.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, _LOOPBACK)
                num_listeners += 1
    except OSError as error:
        return reason(error)
    for own in sockets_at(port):
        with contextlib.suppress(OSError):  # it is a listener, or was closed in the meantime
            if not _is_from_here(own):
                own.shutdown(socket.SHUT_RDWR)
    return None if num_listeners else f"this process does not listen at port {port}"


def _is_from_here(connection: socket.socket) -> bool:
    host, port = connection.getpeername()[:2]
    return Address(host.removeprefix("::ffff:"), port).is_loopback
