"""The parent's side of a setup's process, which sends commands and receives answers or errors."""

import contextlib
import multiprocessing
import os
import re
import signal
import tempfile
from collections.abc import Callable

from mtf_imaging.errors import MtfImagingError
from mtf_imaging.files.picklable import pickled
from mtf_imaging.files.user_modules import USER_MODULES
from mtf_imaging.files.workers import ctrl_c_held_back, safe_path
from mtf_imaging.planner.bench import worker

_TRACEBACK = "Traceback (most recent call last):"
_EXCEPTION = re.compile(r"^\S.*", re.MULTILINE)  # the line after the indented traceback lines
_KILLED = (
    "SIGKILL, usually because the system ran out of memory. Fix: measure fewer setups at a time, because all of them "
    "stay in memory, or lower the resolution"
)


class WorkerError(MtfImagingError):
    """The failure of a worker; the message states the reason."""


class Process:
    """A separate process for one setup.

    Args:
      subject: a `Subject` that can be pickled.
      serve: the function that the process runs, with the signature of `worker.serve`.
    """

    def __init__(self, subject: object, serve: Callable = worker.serve):
        sent = pickled((USER_MODULES, subject), "every setup")
        spawn = multiprocessing.get_context("spawn")  # a fork may hang because TensorFlow has threads
        self._log = tempfile.NamedTemporaryFile(suffix=".log")  # noqa: SIM115  open as long as the process runs
        self._connection, theirs = spawn.Pipe()
        arguments = (theirs, self._log.name, sent)
        self._process = spawn.Process(target=serve, args=arguments, daemon=True)
        # The new process inherits the blocked signal until it ignores the signal itself.
        with safe_path(), ctrl_c_held_back():
            self._process.start()
        theirs.close()  # otherwise this end would not notice that the process has ended

    def ask(self, word: str, *arguments) -> dict:
        """Sends a command with its arguments and returns the answer.

        Raises:
          WorkerError: the request failed, or the process has ended.
        """
        try:
            self._connection.send((word, arguments))
            answer = self._connection.recv()
        except (EOFError, OSError):
            self._process.join()
            raise WorkerError(self._last_words()) from None
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def close(self) -> None:
        """Ends the process."""
        self._connection.close()
        self._process.kill()
        self._process.join()
        with contextlib.suppress(OSError):
            self._log.close()

    def _last_words(self):
        """Returns the signal or exception that ended the process, or its last line of output."""
        code = self._process.exitcode
        if code is not None and code < 0:
            name = signal.Signals(-code).name
            return f"its process was ended by {_KILLED if name == 'SIGKILL' else name}"
        with open(self._log.name, errors="replace") as file:
            text = file.read().strip()
        exception = _EXCEPTION.search(text.rpartition(_TRACEBACK)[2])
        line = exception[0] if _TRACEBACK in text and exception else text.rpartition(os.linesep)[2]
        return " ".join(line.split())[:500] or f"its process ended with exit code {code} and no output"
