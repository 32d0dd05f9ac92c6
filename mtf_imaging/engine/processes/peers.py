"""Watches the other processes of a program: whether they are alive and whether any still computes. Pure Python.

Each process sends its status to others twice a second (`heartbeats`), and each one decides on its own:

- A process that ended, for whatever reason, refuses its TCP port. This is noticed within seconds.
- A process that was stopped, or whose host was lost, neither sends a status nor answers at its TCP port. It is lost
  after the timeout.
- If processes call different programs, or call them differently often, all of them wait and none computes. A process
  counts as computing while it or one of its workers uses CPU time. If all processes wait in calls, and none computes
  for the timeout, they are stuck. If a process is outside its calls, it may wait for a disk, so this takes `_PATIENCE`
  timeouts.

A loss matters only to a process that is in a call. A process that makes no more calls may outlive all others.

With many processes, each one watches only some others. A lost process ends its watchers, which tell their own watchers
why, and so on. The times at which any process last computed, or was outside a call, spread in the same way.

A firewall may drop datagrams. Then only the TCP ports show which processes are alive, and stuck processes wait forever.
"""

import atexit
import collections
import contextlib
import errno
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator

from mtf_imaging.engine.processes import proxies
from mtf_imaging.engine.processes.heartbeats import EVERY, Arrival, Heartbeats, Status, make_roll, watched_by, watchers
from mtf_imaging.engine.processes.probing import silence, stranger
from mtf_imaging.engine.processes.processes import Processes
from mtf_imaging.engine.processes.secret import SECRET
from mtf_imaging.engine.processes.sockets import keep_connections
from mtf_imaging.errors import ClusterError, ConfigError, reason
from mtf_imaging.files import workers

_PATIENCE = 5  # timeouts
_FRESH = 4 * EVERY  # seconds for which a status is valid
_LEAST_WORK = 0.02  # in CPU cores; a waiting process uses less
_ANSWER = 1.0  # seconds to wait for an answer at a TCP port
_AGAIN = 2.0  # seconds between two probes of a TCP port
_AT_ONCE = 4  # TCP ports to probe at a time
_FIRST_CALLS = 1  # calls that a process can start before all others have joined
_WITHOUT_DATAGRAMS = 5.0  # seconds after which an open TCP port suffices
_REFUSED = os.strerror(errno.ECONNREFUSED)
_NEVER = float("-inf")
_NAMES = 4  # processes to name in a message

_RESUME = (
    "The checkpoints are intact. Fix: start all processes again; training resumes from the last checkpoint. A launcher "
    "with restarts does this by itself"
)


class Peers:
    """The other processes, as this process sees them.

    Args:
      processes: the processes.
      end: a function that is called with a message, from another thread, if this process is in a call and cannot
        complete it.
      cpu_time: a function that returns the CPU time of this process and its workers in seconds.

    Raises:
      ConfigError: the port of this process is in use.
    """

    def __init__(
        self, processes: Processes, end: Callable[[str], None], cpu_time: Callable[[], float] = workers.cpu_time
    ) -> None:
        self._processes, self._end, self._cpu_time = processes, end, cpu_time
        self._watched = watched_by(processes.index, processes.num)
        self._roll, self._identity = make_roll(processes), secrets.token_bytes(8)
        now = time.monotonic()
        self._lock = threading.Lock()
        self._begun = self._completed = self._inside = 0  # call numbers
        self._call_since = self._left_at = self._active_at = now
        self._cpu, self._cpu_at = cpu_time(), now
        self._has_server = False
        self._has_met = False
        self._status: dict[int, tuple[Status, float]] = {}  # the last status of each process, and its time
        self._asked: dict[int, float] = {}  # time of the last probe of a TCP port
        self._alive: dict[int, float] = {}  # time of the last sign of life
        self._silence: dict[int, str] = {}  # the reason that a TCP port did not answer
        self._replaced: set[int] = set()
        self._doubts: dict[int, str] = {}  # {number of a process: fault of its secret}
        self._fault = ""
        self._start_by = float("inf")
        self._lost = ""
        self._is_lost, self._hurry, self._closed = threading.Event(), threading.Event(), threading.Event()
        # Also to its own address, where another process may have taken its place.
        self._heartbeats = Heartbeats(processes, self._make_status, self._receive, range(processes.num))
        self._heartbeats.start()

    @property
    def is_in_call(self) -> bool:
        """Whether this process is in a call to a program, where it may wait for others."""
        return self._inside > 0

    @contextlib.contextmanager
    def in_call(self) -> Iterator[None]:
        """Marks a call to a program."""
        with self._lock:
            self._call_since = time.monotonic()
            self._begun += 1
            self._inside += 1
        try:
            yield
            self._completed += 1
        finally:
            with self._lock:
                self._inside -= 1
                self._left_at = time.monotonic()

    def meet(self) -> None:
        """Waits until all other processes have started, and starts watching them.

        The TCP port of this process must be open.

        Raises:
          ConfigError: a process has a different list of processes, or two have the same number.
          ClusterError: a process does not start in time, or ends.
        """
        self._has_server = True
        self._heartbeats.send()
        deadline = time.monotonic() + self._processes.timeout
        others = [i for i in range(self._processes.num) if i != self._processes.index]
        while missing := {i: why for i in others if (why := self._why_missing(i))}:
            if self._fault:
                self.tell(self._fault)
                raise ConfigError(self._fault)
            gone = [i for i in missing if self._silence.get(i) == _REFUSED and self._had_started(i)]
            if gone or time.monotonic() > deadline:
                text = self._gone(gone[0], "") if gone else self._late(missing)
                self.tell(text)
                raise ClusterError(text)
            self._ask(sorted(missing, key=lambda i: self._asked.get(i, _NEVER))[:_AT_ONCE])
            time.sleep(0.05)
        self._has_met = True
        self._heartbeats.targets = frozenset(watchers(self._processes.index, self._processes.num))
        self._heartbeats.resolve_again()  # some may have been replaced while this process waited for them
        self._alive = dict.fromkeys(self._watched, time.monotonic())
        self._start_by = time.monotonic() + 2 * self._processes.timeout
        threading.Thread(target=self._watch, daemon=True, name="watch processes").start()

    def start(self) -> None:
        """Marks the end of the first exchange with all processes."""
        self._start_by = float("inf")
        atexit.register(self._linger)

    def find_lost(self) -> str | None:
        """Returns a message about the lost process after a TensorFlow error, or None if no process is lost."""
        self._hurry.set()
        self._is_lost.wait(min(self._processes.timeout, 10.0))
        self._hurry.clear()
        return self._lost or None

    def tell(self, lost: str) -> None:
        """Tells all processes why this one is about to end. Each of them checks for itself whether it has ended."""
        self._lost = lost
        self._heartbeats.targets = frozenset(range(self._processes.num))
        self._heartbeats.send()

    def close(self) -> None:
        """Stops watching and frees the port."""
        self._closed.set()
        self._heartbeats.close()

    def _make_status(self) -> Status:
        """Returns the status of this process."""
        now, cpu = time.monotonic(), self._cpu_time()
        if now - self._cpu_at >= EVERY / 2:
            if cpu - self._cpu >= _LEAST_WORK * (now - self._cpu_at):
                self._active_at = now
            self._cpu, self._cpu_at = cpu, now
        idle, outside = self._ages(now)
        processes, calls = self._processes, self._begun
        facts = (calls, self._has_server, self.is_in_call, False, idle, outside, self._lost or self._fault)
        return Status(self._roll, self._identity, processes.num, processes.index, *facts)

    def _ages(self, now: float) -> tuple[float, float]:
        """Returns the seconds since any process computed, and since any process was outside a call."""
        idle = [now - self._active_at]
        outside = [now - (self._left_at if self.is_in_call else now)]
        for i in self._watched:
            status, at = self._last_status(i)
            if status is not None:
                idle.append(status.idle + now - at)
                outside.append(status.outside + now - at)
        return min(idle), min(outside)

    def _receive(self, arrival: Arrival, sender: tuple) -> None:
        """Stores the status of another process, unless its sender does not know the secret."""
        own, status = self._processes, arrival.status
        if arrival.doubt:
            # Anyone can send this, so it only explains why a process is missing.
            if status.number < own.num and status.number != own.index and not self._has_met:
                self._doubts[status.number] = arrival.doubt
            return
        if status.roll != self._roll:
            if not self._has_met:
                address = f"{sender[0]}:{sender[1]}"
                self._fault = self._fault or self._other_list(status, address)
                if not status.is_reply:
                    self._heartbeats.reply(sender)
            return
        if status.number == own.index:
            if status.identity != self._identity and not self._has_met:
                self._fault = self._fault or (
                    f"two processes have the number {own.index}: this one, and one that sends from {sender[0]}. Fix: "
                    f"start {own.name(own.index)} once, on the host of its address, and give each process its own "
                    "number."
                )
                if not status.is_reply:
                    self._heartbeats.reply(sender)
            return
        last = self._status.get(status.number)
        if last is not None and last[0].identity != status.identity and self._has_met:
            self._replaced.add(status.number)
        now = time.monotonic()
        self._status[status.number] = status, now
        self._alive[status.number] = now

    def _other_list(self, status: Status, address: str) -> str:
        own = self._processes
        difference = f"{status.num} processes instead of {own.num}" if status.num != own.num else "other addresses"
        return (
            f"process {status.number}, which sends from {address}, was started with another list of processes than "
            f"{own.name(own.index)}: {difference}. Fix: start all processes with the same list of addresses."
        )

    def _why_missing(self, index: int) -> str | None:
        """Returns the reason that a process does not count as started, or None if it does."""
        now = time.monotonic()
        status, at = self._last_status(index)
        if status is not None and now - at < _FRESH:
            if status.calls > _FIRST_CALLS:
                return "still runs an earlier program"
            return None if status.has_server else "is starting"
        why, first = self._silence.get(index, "no answer"), self._alive.get(index)
        if status is not None or first is None or now - first < _WITHOUT_DATAGRAMS:
            return why
        try:
            return stranger(self._processes.addresses[index], _ANSWER)
        except OSError as error:
            return reason(error)

    def _had_started(self, index: int) -> bool:
        """Returns whether a process of this program, not of an earlier one, had opened its TCP port."""
        status, at = self._last_status(index)
        return status is not None and status.has_server and status.calls <= _FIRST_CALLS and self._asked[index] > at

    def _late(self, missing: dict[int, str]) -> str:
        doubts = {i: self._doubts[i] for i in missing if i in self._doubts and i not in self._status}
        names = [f"{self._processes.name(i)}: {doubts.get(i, why)}" for i, why in list(missing.items())[:_NAMES]]
        names += ["..."] * (len(missing) > _NAMES)
        text = (
            f"{len(missing)} of {self._processes.num} processes did not start within {self._processes.timeout:g} s "
            f"({'; '.join(names)}).{proxies.note()}"
        )
        if doubts:
            return f"{text} Fix: start all processes with the same {SECRET}, and end the processes of other programs."
        local = next((own.host for own in (self._processes.addresses[i] for i in missing) if own.is_loopback), "")
        means = f" ({local} is another host on each host)" if local else ""
        return (
            f"{text} Fix: start all processes at about the same time, with addresses that all hosts can reach{means}, "
            "or allow more time with MTF_IMAGING_TIMEOUT."
        )

    def _ask(self, indices: list[int]) -> None:
        """Probes TCP ports to see whether their processes are alive."""
        for i in indices:
            now = time.monotonic()
            if now - self._asked.get(i, _NEVER) < _AGAIN and not self._hurry.is_set():
                continue
            self._asked[i] = now
            why = silence(self._processes.addresses[i], _ANSWER)
            if why is None:
                self._silence.pop(i, None)
                if self._has_met:
                    self._alive[i] = time.monotonic()
                else:
                    self._alive.setdefault(i, time.monotonic())
            else:
                self._silence[i] = why

    def _watch(self) -> None:
        while not self._closed.is_set():
            self._hurry.wait(EVERY)
            if self._hurry.is_set():
                time.sleep(EVERY / 5)
            keep_connections(self._processes.own.port)
            now = time.monotonic()
            quiet = [i for i in self._watched if self._hurry.is_set() or now - self._heard_at(i) > 3 * EVERY]
            self._ask(sorted(quiet, key=lambda i: self._asked.get(i, _NEVER))[:_AT_ONCE])
            if not self.is_in_call:
                continue
            lost = self._find_dead() or self._find_replaced() or self._find_stuck()
            if lost and self.is_in_call:
                self.tell(lost)
                self._is_lost.set()
                self._end(lost)
                return

    def _last_status(self, index: int) -> tuple[Status | None, float]:
        """Returns the last status of a process and its time."""
        return self._status.get(index, (None, _NEVER))

    def _heard_at(self, index: int) -> float:
        """Returns the time of the last status of a process."""
        return self._last_status(index)[1]

    def _find_dead(self) -> str | None:
        """Returns a message about a process that has ended, or that has not answered for the timeout."""
        now = time.monotonic()
        for i in self._watched:
            why, quiet = self._silence.get(i), now - self._alive[i]
            if why is None or self._heard_at(i) > self._asked[i]:
                continue
            if why == _REFUSED:
                return self._gone(i, f" ({why})")
            if quiet > self._processes.timeout:
                return f"lost {self._processes.name(i)}: {why} for {quiet:.0f} s. {_RESUME}."
        return None

    def _gone(self, index: int, why: str) -> str:
        """Returns a message about a process that has ended, with its reason if it sent one."""
        said = self._status[index][0].why if index in self._status else ""
        return said or (f"lost {self._processes.name(index)}: it has ended{why}. Its output may tell why. {_RESUME}.")

    def _find_replaced(self) -> str | None:
        """Returns a message about a process that was started again while the others continued."""
        for i in self._replaced:
            return f"lost {self._processes.name(i)}: it was started again. {_RESUME}."
        return None

    def _find_stuck(self) -> str | None:
        """Returns a message if no process computes, although this one waits for others."""
        now, timeout = time.monotonic(), self._processes.timeout
        if now > self._start_by:
            return (
                f"the {self._processes.num} processes did not begin together within {2 * timeout:g} s, although all "
                f"of them answer.{self._strangers()}{proxies.note()} Fix: start all processes with the same list of "
                "addresses, and end the processes of earlier programs."
            )
        if any(now - self._heard_at(i) > _FRESH for i in self._watched):
            return None  # some may compute
        idle, outside = self._ages(now)
        waited = min(idle, now - self._call_since)
        if waited < (timeout if outside > timeout else _PATIENCE * timeout):
            return None
        return (
            f"the processes have waited for {waited:.0f} s, and none of them computes: {self._states()}."
            f"{proxies.note()} Fix: make all processes call the same programs in the same order, equally often. If a "
            "process has to wait for something else, such as a disk, allow more time with MTF_IMAGING_TIMEOUT."
        )

    def _strangers(self) -> str:
        """Returns a sentence about each process with a different secret, or ""."""
        doubts = [(i, doubt) for i, doubt in sorted(self._doubts.items()) if i not in self._status]
        return "".join(f" {self._processes.name(i)} {doubt}." for i, doubt in doubts[:_NAMES])

    def _states(self) -> str:
        """Describes which processes are in which call."""
        states = collections.defaultdict(list)
        states[self.is_in_call, self._begun].append(self._processes.index)
        for i in self._watched:
            status, _ = self._status[i]
            states[status.is_in_call, status.calls].append(i)
        parts = []
        for (is_in_call, calls), indices in sorted(states.items(), key=lambda state: sorted(state[1])):
            names = [self._processes.name(i) for i in sorted(indices)[:_NAMES]]
            names += [f"{len(indices) - _NAMES} more"] if len(indices) > _NAMES else []
            many = len(indices) > 1
            where = f"in call {calls}" if is_in_call else f"outside a call, after {calls} calls"
            parts.append(f"{' and '.join(names)} {'are' if many else 'is'} {where}")
        return "; ".join(parts)

    def _linger(self) -> None:
        """Waits, before this process ends, for processes that have not completed its last call.

        They may still read messages of this process, or would notice its end before they complete the call.
        """
        if self._lost:
            return
        self._heartbeats.send()
        deadline = time.monotonic() + self._processes.timeout
        while any(self._is_behind(i, deadline) for i in self._watched):
            time.sleep(EVERY / 5)

    def _is_behind(self, index: int, deadline: float) -> bool:
        """Returns whether a process is about to complete a call that this process has completed."""
        status, at = self._last_status(index)
        now = time.monotonic()
        if status is None or now - at > _FRESH or status.calls - status.is_in_call >= self._completed:
            return False
        return status.is_in_call or now < deadline  # outside a call, it may never start the next one
