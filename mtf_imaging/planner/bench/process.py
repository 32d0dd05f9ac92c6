"""A setup's process as its parent sees it: words go in, answers come back, or the reason why none does."""

import contextlib
import multiprocessing
import os
import re
import signal
import tempfile
from collections.abc import Callable

from mtf_imaging.errors import MtfImagingError
from mtf_imaging.files.picklable import pickled
from mtf_imaging.files.workers import ctrl_c_held_back
from mtf_imaging.planner.bench import worker

_TRACEBACK = "Traceback (most recent call last):"
_EXCEPTION = re.compile(r"^\S.*", re.MULTILINE)  # what follows a traceback's indented lines
_KILLED = (
    "SIGKILL, mostly of a system that is short of memory. Fix: fewer setups at a time, for all are held side by side; "
    "or a lower resolution"
)


class WorkerError(MtfImagingError):
    """A worker that failed; says why."""


class Process:
    """A process of its own for one setup.

    Args:
      subject: a `Subject`; it can be pickled.
      serve: what the process runs, as `worker.serve`.
    """

    def __init__(self, subject: object, serve: Callable = worker.serve):
        sent = pickled(subject, "every setup")
        spawn = multiprocessing.get_context("spawn")  # a fork of a process with threads, as TensorFlow's, may hang
        self._log = tempfile.NamedTemporaryFile(suffix=".log")  # noqa: SIM115  open as long as the process
        self._connection, theirs = spawn.Pipe()
        arguments = (theirs, self._log.name, sent)
        self._process = spawn.Process(target=serve, args=arguments, daemon=True)
        with ctrl_c_held_back():  # it is born with it held back, until it ignores it
            self._process.start()
        theirs.close()  # so that this end says when the other is gone

    def ask(self, word: str, *arguments) -> dict:
        """Sends a word and returns the answer.

        Raises:
          WorkerError: it failed, or its process has ended.
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
        """The exception that it ended with, or its last line; a killed process says nothing of it."""
        code = self._process.exitcode
        if code is not None and code < 0:
            name = signal.Signals(-code).name
            return f"its process was ended by {_KILLED if name == 'SIGKILL' else name}"
        with open(self._log.name, errors="replace") as file:
            text = file.read().strip()
        exception = _EXCEPTION.search(text.rpartition(_TRACEBACK)[2])
        said = exception[0] if _TRACEBACK in text and exception else text.rpartition(os.linesep)[2]
        return " ".join(said.split())[:500] or f"its process ended without a word, with exit code {code}"
