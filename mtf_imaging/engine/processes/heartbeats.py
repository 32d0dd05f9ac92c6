"""Heartbeats: messages by which the processes of a program show that they are alive. Pure Python.

Each process sends its status twice a second, as a UDP datagram to the port with the same number as the TCP port. A
datagram contains facts about its sender, and no commands. Datagrams of any other form are ignored. If the processes
share a secret, datagrams from senders without it are ignored, too.

With up to `_ALL` processes, each one watches all others. With more, each watches the processes at distances 1, 2, 4 and
so on, so the number of messages grows slowly.
"""

import contextlib
import errno
import hashlib
import math
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from mtf_imaging.engine.processes.processes import Processes
from mtf_imaging.engine.processes.secret import TAG_SIZE, find_doubt, make_tag
from mtf_imaging.errors import ConfigError, reason

_ALL = 16
EVERY = 0.5  # seconds between two messages
_RETRY = 5.0  # seconds until an unknown host name is looked up again
_LONGEST = 1000  # bytes of `why`, so that a datagram fits into one Ethernet packet
_HEAD = struct.Struct("!4s16s8sIIQBdd")
_HEAD_AND_TAG = _HEAD.size + TAG_SIZE
_MAGIC = b"mtf2"
_HAS_SERVER, _IS_IN_CALL, _IS_REPLY = 1, 2, 4


def watched_by(index: int, num: int) -> list[int]:
    """Returns the numbers of the processes that a process watches.

    >>> watched_by(1, 4)
    [0, 2, 3]
    >>> watched_by(0, 100)
    [1, 2, 4, 8, 16, 32, 64]
    """
    if num <= _ALL:
        return [i for i in range(num) if i != index]
    return sorted({(index + (1 << k)) % num for k in range((num - 1).bit_length())} - {index})


def watchers(index: int, num: int) -> list[int]:
    """Returns the numbers of the processes that watch a process.

    >>> watchers(0, 100)
    [36, 68, 84, 92, 96, 98, 99]
    """
    return sorted((2 * index - i) % num for i in watched_by(index, num))


class Status(NamedTuple):
    """The status that a process reports about itself.

    Attributes:
      roll: a digest of all process addresses.
      identity: random bytes, different after a restart.
      num: number of processes.
      number: process number.
      calls: number of program calls that the process has started.
      has_server: whether its TCP port is open.
      is_in_call: whether it is in a call.
      is_reply: whether this answers a mismatched message.
      idle: seconds since any process was last known to compute.
      outside: seconds since any process was last known to be outside a call.
      why: the reason for which the process is about to end, or "".
    """

    roll: bytes
    identity: bytes
    num: int
    number: int
    calls: int
    has_server: bool
    is_in_call: bool
    is_reply: bool
    idle: float
    outside: float
    why: str


def make_roll(processes: Processes) -> bytes:
    """Returns a digest of all process addresses."""
    return hashlib.sha256(",".join(map(str, processes.addresses)).encode()).digest()[:16]


def encode(status: Status, secret: str = "") -> bytes:
    """Encodes a status as a datagram.

    Args:
      status: the status.
      secret: the secret of the processes, or "". The datagram proves that its sender knows it.
    """
    flags = status.has_server * _HAS_SERVER | status.is_in_call * _IS_IN_CALL | status.is_reply * _IS_REPLY
    roll, identity, num, number, calls = status[:5]
    head = _HEAD.pack(_MAGIC, roll, identity, num, number, calls, flags, status.idle, status.outside)
    why = status.why.encode()[:_LONGEST]
    return head + make_tag(head + why, secret) + why


class Arrival(NamedTuple):
    """The content of a datagram.

    Attributes:
      status: the status of its sender.
      doubt: the reason to ignore it, derived from the secret of its sender, or "".
    """

    status: Status
    doubt: str


def decode(data: bytes, secret: str = "") -> Arrival | None:
    """Returns the content of a datagram, or None if it is not a heartbeat.

    Args:
      data: the datagram.
      secret: the secret of the processes, or "".
    """
    if not _HEAD_AND_TAG <= len(data) <= _HEAD_AND_TAG + _LONGEST:
        return None
    magic, roll, identity, num, number, calls, flags, idle, outside = _HEAD.unpack(data[: _HEAD.size])
    if magic != _MAGIC or number >= num or not all(math.isfinite(age) and age >= 0 for age in (idle, outside)):
        return None
    head, tag, rest = data[: _HEAD.size], data[_HEAD.size : _HEAD_AND_TAG], data[_HEAD_AND_TAG:]
    why = "".join(c for c in rest.decode(errors="ignore") if c.isprintable())
    has_server, is_in_call, is_reply = (bool(flags & bit) for bit in (_HAS_SERVER, _IS_IN_CALL, _IS_REPLY))
    status = Status(roll, identity, num, number, calls, has_server, is_in_call, is_reply, idle, outside, why)
    return Arrival(status, find_doubt(head + rest, tag, secret))


class Heartbeats:
    """Sends the status of this process to others, and receives theirs, in one thread.

    The thread runs after `start` is called. If the port cannot be opened for datagrams, for instance in a sandbox,
    nothing is sent or received.

    Args:
      processes: the processes.
      make_status: a function that returns the status of this process.
      receive: a function that gets the content of each datagram and the address of its sender.

    Attributes:
      targets: the numbers of the target processes.

    Raises:
      ConfigError: another program uses the port.
    """

    def __init__(
        self,
        processes: Processes,
        make_status: Callable[[], Status],
        receive: Callable[[Arrival, tuple], None],
        targets: Iterable[int],
    ) -> None:
        self.targets = frozenset(targets)
        self._processes, self._make_status, self._receive = processes, make_status, receive
        self._resolved: dict[int, tuple] = {}
        self._unresolved: dict[int, float] = {}  # time of the next attempt
        self._family = socket.AF_INET6 if ":" in processes.own.host else socket.AF_INET
        self._socket: socket.socket | None = socket.socket(self._family, socket.SOCK_DGRAM)
        try:
            # With loopback addresses, processes are not visible to other hosts.
            host = processes.own.host if processes.own.is_loopback else ""
            self._socket.bind((host, processes.own.port))
        except OSError as error:
            self._socket.close()
            self._socket = None
            if error.errno == errno.EADDRINUSE:
                raise _in_use(processes, "UDP port") from None

    def start(self) -> None:
        """Starts the thread that sends and receives."""
        if self._socket:
            threading.Thread(target=self._run, args=[self._socket], daemon=True, name="heartbeats").start()

    def send(self) -> None:
        """Sends the status to all targets now."""
        data = encode(self._make_status(), self._processes.secret)
        for index in self.targets:
            address = self._address(index)
            if address and self._socket:
                with contextlib.suppress(OSError):
                    self._socket.sendto(data, address)

    def resolve_again(self) -> None:
        """Makes the next message to each process resolve its host name again.

        A replaced pod or virtual machine keeps its name but gets another address.
        """
        self._resolved = {}

    def reply(self, sender: tuple) -> None:
        """Sends the status to the sender of a message that does not match."""
        if self._socket:
            with contextlib.suppress(OSError):
                reply = self._make_status()._replace(is_reply=True)
                self._socket.sendto(encode(reply, self._processes.secret), sender)

    def close(self) -> None:
        """Stops sending and receiving."""
        if self._socket:
            self._socket.close()

    def _run(self, own: socket.socket) -> None:
        due = 0.0
        while own.fileno() >= 0:
            wait = due - time.monotonic()
            if wait <= 0:
                self.send()
                due = time.monotonic() + EVERY
                continue
            try:
                own.settimeout(wait)
                data, sender = own.recvfrom(2 * _LONGEST)
            except TimeoutError:
                continue
            except OSError:  # the port of a receiver was closed
                time.sleep(0.01)
                continue
            arrival = decode(data, self._processes.secret)
            if arrival is not None:
                self._receive(arrival, sender)

    def _address(self, index: int) -> tuple | None:
        """Returns the address of a process, or None while its host name cannot be resolved."""
        if index not in self._resolved and time.monotonic() >= self._unresolved.get(index, 0.0):
            host, port = self._processes.addresses[index]
            try:
                self._resolved[index] = socket.getaddrinfo(host, port, self._family, socket.SOCK_DGRAM)[0][4]
            except OSError:
                self._unresolved[index] = time.monotonic() + _RETRY
        return self._resolved.get(index)


def check_own_port(processes: Processes) -> None:
    """Checks that the port of this process is free.

    Raises:
      ConfigError: another program uses the port, or this host does not permit its use.
    """
    family = socket.AF_INET6 if ":" in processes.own.host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", processes.own.port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise _in_use(processes, "port") from None
            raise ConfigError(
                f"{processes.name(processes.index)}: port {processes.own.port}: {reason(error)}. Fix: give this "
                "process another port."
            ) from None


def _in_use(processes: Processes, port: str) -> ConfigError:
    """Returns the error for a port of this process that is in use."""
    # Two host names, such as two Slurm nodes, may be the same host.
    twins = [i for i, address in enumerate(processes.addresses) if address.port == processes.own.port]
    others = [processes.name(i) for i in twins if i != processes.index]
    who = f" (by {others[0]}, a task of another node on this host?)" if others else ""
    return ConfigError(
        f"{processes.name(processes.index)}: {port} {processes.own.port} is in use on this host{who}. Fix: end the "
        "program that uses it, perhaps an earlier process of this program, or give this process another port."
    )
