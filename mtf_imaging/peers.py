"""Watches the other processes of a program: whether they answer, and whether any of them still computes. Pure Python.

Each process answers datagrams on the UDP port with the number of its TCP port, from a thread of its own. The answer
contains the CPU time of the process, and whether it waits in a call of a program. A process that was killed refuses its
TCP port. A process that was stopped answers neither.

With up to `_ALL` processes, each one watches all others. With more, each watches the processes at distances 1, 2, 4 and
so on, so the number of messages grows slowly, and a lost process is noticed by several others, which then end as well.
"""

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from mtf_imaging.errors import ConfigError, reason
from mtf_imaging.processes import Processes
from mtf_imaging.servers import silence

_ALL = 16
_EVERY = 0.5  # seconds between questions
_ANSWER = struct.Struct("!4sIdB")  # magic, number of the process, CPU seconds, whether it is in a call
_MAGIC = b"mtf1"
_LEAST_WORK = 0.02  # CPUs; a process that waits uses less


class Lost(NamedTuple):
    """A lost process.

    Attributes:
      title: the name of the process, or of several.
      why: the reason.
    """

    title: str
    why: str

    def __str__(self) -> str:
        return f"lost {self.title}: {self.why}"


class _Status(NamedTuple):
    """What a process answered.

    Attributes:
      cpu: its CPU time in seconds.
      is_in_call: whether it is in a call of a program.
      since: time at which its CPU time last grew faster than that of a waiting process.
      at: time of the answer.
    """

    cpu: float
    is_in_call: bool
    since: float
    at: float


def check_own_port(processes: Processes) -> None:
    """Checks that the port of this process is free.

    Raises:
      ConfigError: another program uses the port.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", processes.own.port))
        except OSError as error:
            raise ConfigError(
                f"{processes.name(processes.index)}: port {processes.own.port}: {reason(error)}. Fix: give this process "
                "another port, or end the program that uses it."
            ) from error


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


class Peers:
    """The other processes, as this process sees them.

    Args:
      processes: the processes.
      end: a function that is called, from another thread, when a process is lost while this process is in a call.
    """

    def __init__(self, processes: Processes, end: Callable[[Lost], None]) -> None:
        self._processes, self._end = processes, end
        self._watched = watched_by(processes.index, processes.num)
        self._status: dict[int, _Status] = {}
        self._heard: dict[int, float] = {}  # time of the last sign of life
        self._calls = 0
        self._call_since = time.monotonic()
        self._has_started = threading.Event()
        self._lost: Lost | None = None
        self._socket = socket.socket(
            socket.AF_INET6 if ":" in processes.own.host else socket.AF_INET, socket.SOCK_DGRAM
        )
        with contextlib.suppress(OSError):  # without datagrams, only the TCP ports show that processes are alive
            self._socket.bind(("", processes.own.port))
            threading.Thread(target=self._answer, daemon=True, name="answers to processes").start()

    @property
    def is_in_call(self) -> bool:
        """Whether this process is in a call of a program, where it may wait for others."""
        return self._calls > 0

    @contextlib.contextmanager
    def in_call(self) -> Iterator[None]:
        """Marks a call of a program."""
        self._call_since = time.monotonic()
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1

    def wait_in_background(self) -> None:
        """Ends this process with a message if the others do not start in time.

        TensorFlow waits for them inside a call that no exception can end.
        """

        def wait() -> None:
            missing = {i for i in range(self._processes.num) if i != self._processes.index}
            deadline = time.monotonic() + self._processes.timeout
            while not self._has_started.wait(0.2):
                missing = {i for i in missing if silence(self._processes.addresses[i], 1.0) is not None}
                if time.monotonic() > deadline:
                    # If all processes answer, TensorFlow is connecting them.
                    if missing:
                        os.write(2, f"\nmtf-imaging: {self._late(sorted(missing))}\n".encode())
                        os._exit(1)
                    deadline = float("inf")

        threading.Thread(target=wait, daemon=True, name="wait for processes").start()

    def _late(self, missing: list[int]) -> str:
        names = [self._processes.name(i) for i in missing[:4]] + ["..."] * (len(missing) > 4)
        return (
            f"{len(missing)} of {self._processes.num} processes did not start within {self._processes.timeout:g} s: "
            f"{' and '.join(names)}. Fix: start all processes at about the same time, with addresses that all hosts can "
            "reach, or allow more time with MTF_IMAGING_TIMEOUT."
        )

    def watch(self) -> None:
        """Starts to watch the other processes."""
        self._has_started.set()
        now = time.monotonic()
        self._heard = dict.fromkeys(self._watched, now)
        threading.Thread(target=self._watch, daemon=True, name="watch processes").start()

    def find_lost(self, seconds: float) -> Lost | None:
        """Returns the lost process after an error; waits up to `seconds` for the evidence."""
        deadline = time.monotonic() + min(seconds, 10.0)
        while self._lost is None and time.monotonic() < deadline:
            for i in self._watched:
                why = silence(self._processes.addresses[i], 1.0)
                if why is not None:
                    self._lost = self._lost or Lost(self._processes.name(i), why)
            time.sleep(0.1)
        return self._lost

    def _watch(self) -> None:
        while self._lost is None:
            time.sleep(_EVERY)
            self._ask_all()
            lost = self._silent() or self._stuck()
            if lost and self.is_in_call:
                self._lost = lost
                self._end(lost)

    def _ask_all(self) -> None:
        """Asks the watched processes for their status."""
        for i in self._watched:
            host, port = self._processes.addresses[i]
            with contextlib.suppress(OSError):
                self._socket.sendto(_MAGIC, (host, port))
        now = time.monotonic()
        for i in self._watched:
            # TCP is asked only if datagrams are not answered, for instance because a firewall drops them.
            if now - self._heard[i] > 2 * _EVERY and silence(self._processes.addresses[i], 1.0) is None:
                self._heard[i] = time.monotonic()

    def _answer(self) -> None:
        """Answers questions, and stores answers to the questions of this process."""
        while True:
            try:
                data, sender = self._socket.recvfrom(64)
            except OSError:
                continue
            if data == _MAGIC:
                status = _ANSWER.pack(_MAGIC, self._processes.index, time.process_time(), self.is_in_call)
                with contextlib.suppress(OSError):
                    self._socket.sendto(status, sender)
            elif len(data) == _ANSWER.size and data[:4] == _MAGIC:
                _, number, cpu, is_in_call = _ANSWER.unpack(data)
                self._store(number, cpu, bool(is_in_call))

    def _store(self, number: int, cpu: float, is_in_call: bool) -> None:
        now, last = time.monotonic(), self._status.get(number)
        since = now
        if last is not None and cpu - last.cpu < _LEAST_WORK * (now - last.at):
            since = last.since
        self._status[number] = _Status(cpu, is_in_call, since, now)
        self._heard[number] = now

    def _silent(self) -> Lost | None:
        """Returns a process that has not answered for the timeout, or whose port is closed."""
        now, timeout = time.monotonic(), self._processes.timeout
        for i, heard in self._heard.items():
            if now - heard > 3 * _EVERY:
                why = silence(self._processes.addresses[i], 1.0)
                if why is not None and (now - heard > timeout or why != "no answer"):
                    return Lost(self._processes.name(i), f"{why} for {now - heard:.0f} s")
        return None

    def _stuck(self) -> Lost | None:
        """Returns the processes that this one waits for although no process has computed anything for the timeout."""
        now, timeout = time.monotonic(), self._processes.timeout
        if not self.is_in_call or now - self._call_since < timeout or len(self._status) < len(self._watched):
            return None
        if any(now - status.since < timeout for status in self._status.values()):
            return None
        others = [self._processes.name(i) for i, status in sorted(self._status.items()) if not status.is_in_call]
        title = " and ".join(others) if others else "an exchange"
        return Lost(
            title,
            f"this process has waited for {now - self._call_since:.0f} s, and no process computes. All processes must "
            "call the same programs in the same order",
        )
