"""Waits of tests, which last as long as the awaited processes make progress. A busy machine fails no test.

A wait fails early if an awaited process has ended. Otherwise it fails only after `PATIENCE` without progress, or after
`LIMIT`. Processes make progress while they or their descendants use CPU time, or while their logs grow.
"""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

PATIENCE = 300.0  # seconds without progress
LIMIT = 1200.0  # seconds; also the timeout of `subprocess.run`, where it only ends a hang
_WORK = 3.0  # seconds of CPU time that count as progress; processes that only watch each other use less
_EVERY = 1.0  # seconds between two measurements
_LOG = 5000  # characters of a log in an error


class Watch:
    """Decides how long to wait for processes.

    Args:
      processes: `subprocess.Popen`, `multiprocessing.Process` or process IDs; without any, nothing extends the wait.
      logs: files that the processes write.
      patience: seconds without progress.
    """

    def __init__(self, processes=(), logs=(), patience=PATIENCE):
        self._patience, self._processes, self._logs = patience, [*processes], [Path(log) for log in logs]
        self._began = self._progress_at = self._measured_at = time.monotonic()
        self._before = None  # short waits measure nothing

    def find_fault(self):
        """Returns why to stop waiting, or None."""
        now = time.monotonic()
        if now - self._began > LIMIT:
            return f"no end after {LIMIT:g} s"
        if now - self._measured_at > _EVERY:
            self._measured_at, (cpu, size) = now, self._measure()
            if self._before is None or cpu - self._before[0] > _WORK or size != self._before[1]:
                self._progress_at, self._before = now, (cpu, size)
            elif cpu < self._before[0]:  # some descendants have ended
                self._before = cpu, size
        if now - self._progress_at > self._patience:
            return f"no progress for {self._patience:g} s"
        return None

    def find_end(self):
        """Returns a text about the first process that has ended, or None."""
        for number, process in enumerate(self._processes):
            code = exit_code(process)
            if code is not None:
                which = f"process {number}" if len(self._processes) > 1 else "the process"
                return f"{which} has ended" + (f" with exit code {code}" if code != "unknown" else "")
        return None

    def read_logs(self):
        """Returns the ends of the logs, for the message of a failed test."""
        return "".join(f"\n--- {log}\n{log.read_text(errors='replace')[-_LOG:]}" for log in self._logs if log.is_file())

    def _measure(self):
        pids = [process if isinstance(process, int) else process.pid for process in self._processes]
        sizes = tuple(log.stat().st_size if log.is_file() else -1 for log in self._logs)
        return (cpu_time(pids) if pids else 0.0), sizes


def wait_until(condition, what, processes=(), logs=(), *, report=None, every=0.02, may_end=False, patience=PATIENCE):
    """Waits until a condition holds, and returns its value.

    Args:
      condition: a function; its result is true when the wait is over. It may itself wait for a short time.
      what: what the test waits for, for the message.
      processes: the processes that bring this about. If one of them has ended, the wait fails at once.
      logs: files that they write.
      report: a function that returns further text for the message, or None.
      every: seconds between two calls of the condition.
      may_end: whether the processes may end before the condition holds.
      patience: seconds without progress.

    Raises:
      AssertionError: the wait failed.
    """
    watch = Watch(processes, logs, patience)
    while True:
        has_ended = None if may_end else watch.find_end()
        if result := condition():  # also once after the end of a process
            return result
        if why := has_ended or watch.find_fault():
            raise AssertionError(f"waiting for {what}: {why}.{watch.read_logs()}" + (f"\n{report()}" if report else ""))
        time.sleep(every)


def wait_for_file(path, processes=(), logs=()):
    """Waits until a file has content, and returns its text."""
    path = Path(path)
    return wait_until(lambda: path.is_file() and path.read_text(), f"the content of {path}", processes, logs)


def wait_for_end(process, what="the end of the process", logs=(), report=None):
    """Waits until a process has ended, and returns its exit code.

    Args:
      process: a `subprocess.Popen` or a `multiprocessing.Process`.
      what: what the test waits for, for the message.
      logs: files that it writes.
      report: a function that returns further text for the message, or None.
    """

    def has_ended():
        if isinstance(process, subprocess.Popen):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.5)
        else:
            process.join(0.5)
        return exit_code(process) is not None

    wait_until(has_ended, what, [process], logs, report=report, every=0.0, may_end=True)
    return exit_code(process)


def communicate(process, what="the end of the process"):
    """Waits until a `subprocess.Popen` has ended and its pipes are closed; returns its exit code, stdout and stderr."""
    watch = Watch([process])
    while True:
        try:
            out, err = process.communicate(timeout=0.5)
            return process.returncode, out, err
        except subprocess.TimeoutExpired as error:
            if why := watch.find_fault():
                raise AssertionError(f"waiting for {what}: {why}.\n{error.output}\n{error.stderr}") from None


@contextlib.contextmanager
def killed_at_end(process):
    """Kills a `subprocess.Popen` when the block ends, with its session if it has started one."""
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                pipe.close()


def exit_code(process):
    """Returns the exit code of a process, "unknown" for a process ID that has ended, or None while it runs."""
    if isinstance(process, int):
        return None if is_running(process) else "unknown"
    return process.poll() if isinstance(process, subprocess.Popen) else process.exitcode


def is_running(pid):
    """Returns whether a process runs; a zombie does not."""
    if Path("/proc/self/stat").exists():
        with contextlib.suppress(OSError):
            return _read_stat(pid)[0] != "Z"
        return False
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    return bool(state) and not state.startswith("Z")


def cpu_time(pids):
    """Returns the CPU time, in seconds, of processes and their descendants, without those that nobody waited for."""
    times = _proc_times() if Path("/proc/self/stat").exists() else _ps_times()
    children = {}
    for pid, (parent, _) in times.items():
        children.setdefault(parent, []).append(pid)
    total, left, seen = 0.0, [*pids], set()
    while left:
        pid = left.pop()
        if pid in times and pid not in seen:
            seen.add(pid)
            total += times[pid][1]
            left += children.get(pid, [])
    return total


def _read_stat(pid):
    """Returns the fields of /proc/PID/stat, beginning with the state."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _proc_times():
    """Returns {process ID: (the ID of its parent, seconds of CPU time, with ended children)}."""
    ticks, times = os.sysconf("SC_CLK_TCK"), {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError):  # it has just ended
                fields = _read_stat(name)
                times[int(name)] = int(fields[1]), sum(map(int, fields[11:15])) / ticks
    return times


def _ps_times():
    """Returns the same on other operating systems, from `ps`."""
    command = ["ps", "-A", "-o", "pid=,ppid=,time="]
    times = {}
    for line in subprocess.run(command, capture_output=True, text=True).stdout.splitlines():
        pid, parent, text = line.split()
        days, _, clock = text.rpartition("-")
        seconds = 0.0
        for part in clock.split(":"):
            seconds = 60 * seconds + float(part)
        times[int(pid)] = int(parent), seconds + 86400 * int(days or 0)
    return times
