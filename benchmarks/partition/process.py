"""The parent's side of a worker: sends commands, and ends the process if no answer arrives in time."""

import contextlib
import json
import os
import re
import selectors
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.partition import memory, worker
from benchmarks.partition.contender import Contender
from benchmarks.partition.networks import Step

_ROOT = Path(__file__).parents[2]
# Contenders share a GPU, so none may reserve all of its memory. The log level hides all but errors.
_ENVIRONMENT = {
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}
_TRACEBACK = "Traceback (most recent call last):"
_EXCEPTION = re.compile(r"^\S.*", re.MULTILINE | re.DOTALL)  # the lines after the indented traceback lines


class WorkerError(Exception):
    """A worker that failed or exceeded its time limit; the message names the command and the error."""


class Process:
    """A contender in its own process.

    Args:
      contender: the contender.
      step: the step that it takes.
      python: the Python interpreter; None for the current one.
    """

    def __init__(self, contender: Contender, step: Step, python: str | None = None):
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  closed with the process
        self._process = subprocess.Popen(
            [python or sys.executable, *worker.arguments(contender, step)],
            cwd=_ROOT,
            env=_ENVIRONMENT | os.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,  # ends together with its children
        )
        self._unread = b""

    def ask(self, word: str, timeout: float) -> dict:
        """Sends a command and returns the answer.

        Raises:
          WorkerError: the worker failed or did not answer within `timeout` seconds; its process is ended.
        """
        try:
            self._process.stdin.write(f"{word}\n".encode())
            self._process.stdin.flush()
            return json.loads(self._line(time.monotonic() + timeout))
        except TimeoutError:
            peak = memory.peak(self._process.pid)
            self.close()
            memory_text = f", {peak / 2**30:.1f} GiB by then" if peak else ""
            raise WorkerError(f"{word}: not done after {timeout:g} s{memory_text}") from None
        except (EOFError, BrokenPipeError):
            self._process.wait()
            words = self._last_words()
            self.close()
            raise WorkerError(f"{word}: {words}") from None

    def close(self) -> None:
        """Ends the process and its children."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, 9)
        self._process.wait()
        for file in (self._process.stdin, self._process.stdout, self._log):
            with contextlib.suppress(BrokenPipeError):  # unread output
                file.close()

    def _line(self, end):
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                if not selector.select(max(0.0, end - time.monotonic())):
                    raise TimeoutError
                read = os.read(self._process.stdout.fileno(), 1 << 16)
                if not read:
                    raise EOFError
                self._unread += read
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _last_words(self):
        """Returns the exception that ended the process, its last line of output, or its signal."""
        if self._process.returncode < 0:
            return f"ended by signal {-self._process.returncode}"
        self._log.seek(0)
        text = self._log.read().decode(errors="replace").strip()
        exception = _EXCEPTION.search(text.rpartition(_TRACEBACK)[2])
        words = exception[0] if _TRACEBACK in text and exception else text.rpartition("\n")[2]
        return " ".join(words.split())[:500] or "ended without output"
