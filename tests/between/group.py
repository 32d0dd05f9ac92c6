"""Groups of processes that joined each other, and call the same functions."""

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from multiprocessing.connection import Listener, wait
from pathlib import Path

from mtf_imaging.cli.runtime.launching.environment import build_environments
from tests import waiting

ROOT = Path(__file__).parents[2]
_LATE = 20.0  # seconds for the other processes after an error in one of them, which has already failed the test
_LOG = 3000  # characters of a log in an error


class Starter:
    """A process that forks groups of processes.

    Args:
      folder: a folder for logs and sockets.
    """

    def __init__(self, folder):
        self.folder, self._numbers = Path(folder), itertools.count()
        with (self.folder / "starter.log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.between.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=ROOT,
                env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
            )
        self._is_ready = False

    def start(self, num):
        """Returns a new `Group`."""
        if not self._is_ready:
            assert self._process.stdout.readline() == "ready\n", (self.folder / "starter.log").read_text()
            self._is_ready = True
        name = f"{self.folder}/{next(self._numbers)}"
        order = {
            "address": name,
            "environments": build_environments({"MTF_IMAGING_TIMEOUT": f"{waiting.LIMIT:g}"}, num, None),
            "log": f"{name}-{{}}.log",
        }
        with Listener(name, "AF_UNIX", backlog=num) as listener:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            return Group([listener.accept() for _ in range(num)], order["log"])

    def close(self):
        """Ends the process."""
        self._process.stdin.close()
        self._process.stdout.close()
        waiting.wait_for_end(self._process, logs=[self.folder / "starter.log"])


class Group:
    """Processes that call the same functions in the same order.

    Args:
      connections: a connection to each process.
      log: name of the log of each process, with {} for its number.

    Attributes:
      is_intact: whether all processes have returned from all calls.
    """

    def __init__(self, connections, log):
        introduced = sorted((connection.recv(), connection) for connection in connections)
        self._pids = [pid for (_, pid), _ in introduced]
        self._connections = [connection for _, connection in introduced]
        self._log = log
        self.is_intact = True
        assert self._outcomes("joining") == [len(connections)] * len(connections)

    def __len__(self):
        return len(self._connections)

    def run(self, fn, *args):
        """Calls a function in all processes; returns the list of their results.

        A failed assertion in one process is an assertion error of this call, and the processes continue. If a process
        does not return, and none makes progress, all of them are killed.

        Args:
          fn: a function of a module.
          *args: its arguments.
        """
        assert self.is_intact
        for connection in self._connections:
            connection.send((fn, *args))
        return self._outcomes(f"{fn.__name__}{args}")

    def _outcomes(self, title):
        outcomes, fault, deadline = {}, None, None
        watch = waiting.Watch(self._pids, map(self._log.format, range(len(self))))
        while len(outcomes) < len(self) and not fault:
            for connection in wait([c for i, c in enumerate(self._connections) if i not in outcomes], 0.5):
                number = self._connections.index(connection)
                try:
                    outcomes[number] = connection.recv()
                except (EOFError, ConnectionError):
                    outcomes[number] = (False, "the process ended")
                    self.is_intact = False
                if not outcomes[number][0] and deadline is None:
                    deadline = time.monotonic() + _LATE
            fault = watch.find_fault()
            if deadline is not None and time.monotonic() > deadline:
                fault = f"an error in another process {_LATE:g} s ago"
        errors = [f"process {i}: {text}" for i, (is_good, text) in sorted(outcomes.items()) if not is_good]
        missing = [i for i in range(len(self)) if i not in outcomes]
        if missing:
            errors.append(f"processes {missing} did not return: {fault}")
        if missing or not self.is_intact:
            self.close()
            errors += [f"log of process {i}: {self._tail(i)}" for i in range(len(self))]
        assert not errors, "\n".join([title, *errors])
        return [outcomes[i][1] for i in range(len(self))]

    def _tail(self, number):
        return Path(self._log.format(number)).read_text(errors="replace")[-_LOG:]

    def close(self):
        """Kills the processes."""
        self.is_intact = False
        for pid in self._pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for connection in self._connections:
            connection.close()
