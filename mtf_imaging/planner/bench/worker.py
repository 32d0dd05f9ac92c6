"""A setup's process: it builds its step, and takes one whenever it is told to.

Words come over a pipe, each is answered by a dict: {"error": text} where it failed.
"""

import os
import pickle
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

from mtf_imaging.errors import MtfImagingError
from mtf_imaging.files.workers import end_with_parent

_WHERE = ("Graph execution error", "Detected at node", "<stack traces", "File ", "[[")


def serve(connection: Connection, log: str, subject: bytes) -> None:
    """Answers words until there are no more.

    Args:
      connection: the pipe.
      log: a file, for what libraries write, the last words of a process that dies among them.
      subject: a pickled `Subject`. It is pickled apart, because what it imports may write, too.
    """
    prepare(log)
    made = Answers(pickle.loads(subject))
    while True:
        try:
            word, arguments = connection.recv()
        except EOFError:
            return
        try:
            answer = getattr(made, word)(*arguments)
        except MtfImagingError as error:
            answer = {"error": str(error)}
        except Exception as error:  # a row of the table; the others go on
            answer = {"error": f"{type(error).__name__}: {_said(error)}"}
        connection.send(answer)


def prepare(log: str) -> None:
    """Makes this process a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the first one ends the others
    threading.Thread(target=end_with_parent, daemon=True).start()
    file = os.open(log, os.O_WRONLY | os.O_APPEND)
    for number in (1, 2):
        os.dup2(file, number)

    from mtf_imaging.meshes.gpus import grow_memory  # only now, for TensorFlow writes as it is imported

    grow_memory()


def _said(error):
    """What is wrong, without where TensorFlow says that it was, before and after."""
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line for line in lines if line and not line.startswith(_WHERE)), repr(error))


class Answers:
    """What each word is answered.

    Args:
      subject: a `Subject`.
    """

    def __init__(self, subject):
        self._subject, self._step = subject, None

    def machine(self, image, kernel, dtype) -> dict:
        """Measures the machine."""
        from mtf_imaging.planner.bench.machine import measure_machine

        return {"hardware": measure_machine(image, kernel, dtype)}

    def build(self, setup) -> dict:
        """Builds the step of a setup."""
        from mtf_imaging.planner.bench.subject import MeasuredStep

        seconds, self._step = timed(lambda: MeasuredStep(self._subject, setup))
        step = self._step
        return {"seconds": seconds, "devices": step.devices, "held": step.held, "moved": step.moved}

    def first(self) -> dict:
        """Takes the first step, whose values are compared, for what memory it takes."""
        from mtf_imaging.planner.bench.memory import peak_above

        losses = []
        peak = peak_above(lambda: losses.append(self._step.take()), self._step.devices)
        return {"peak": peak, "loss": losses[0], "gradient_norm": self._step.gradient_norm}

    def second(self) -> dict:
        """Takes a step for what memory its tensors take."""
        from mtf_imaging.planner.bench.memory import tensors_above

        return {"tensors": tensors_above(self._step.take, self._step.devices)}

    def step(self) -> dict:
        """Takes a step for its time."""
        return {"seconds": timed(self._step.take)[0]}


def timed(function: Callable[[], object]) -> tuple[float, object]:
    """Returns the seconds that a call took, and what it returned."""
    began = time.perf_counter()
    result = function()
    return time.perf_counter() - began, result
