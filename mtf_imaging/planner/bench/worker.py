"""The process of one setup, which builds the step and runs it on request.

Requests arrive over a pipe as command names; each answer is a dict, {"error": text} if the request failed.
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
    """Answers requests until the pipe is closed.

    Args:
      connection: the pipe.
      log: the file that receives the output of libraries, including the last message of a process that dies.
      subject: a pickle of the user's modules and a `Subject`. It is unpickled here, because its imports may also print.
    """
    prepare(log)
    _, own = pickle.loads(subject)
    made = Answers(own)
    while True:
        try:
            word, arguments = connection.recv()
        except EOFError:
            return
        try:
            answer = getattr(made, word)(*arguments)
        except MtfImagingError as error:
            answer = {"error": str(error)}
        except Exception as error:  # becomes a row of the table, and the other setups continue
            answer = {"error": f"{type(error).__name__}: {_error_line(error)}"}
        connection.send(answer)


def prepare(log: str) -> None:
    """Sets up this process as a worker: signals, output and memory.

    Args:
      log: the file that receives standard output and standard error.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent ends its workers
    threading.Thread(target=end_with_parent, daemon=True).start()
    file = os.open(log, os.O_WRONLY | os.O_APPEND)
    for number in (1, 2):
        os.dup2(file, number)

    from mtf_imaging.engine.meshes.devices import (
        grow_memory,  # after the redirection, because the import of TensorFlow prints
    )

    grow_memory()


def _error_line(error):
    """Returns the line of a TensorFlow error that states the problem, without its location."""
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line for line in lines if line and not line.startswith(_WHERE)), repr(error))


class Answers:
    """The methods that answer requests, one per command.

    Args:
      subject: the `Subject` to measure.
    """

    def __init__(self, subject):
        self._subject, self._step, self._machine = subject, None, None

    def machine(self, kernels, dtype) -> dict:
        """Prepares to sample the speed of the machine."""
        from mtf_imaging.planner.bench.machine import Machine

        self._machine = Machine(kernels, dtype)
        return {}

    def sample(self) -> dict:
        """Measures the machine once."""
        self._machine.sample()
        return {}

    def hardware(self) -> dict:
        """Returns the median of all samples."""
        return {"hardware": self._machine.hardware()}

    def build(self, setup) -> dict:
        """Builds the step of a setup."""
        from mtf_imaging.planner.bench.subject import MeasuredStep

        seconds, self._step = timed(lambda: MeasuredStep(self._subject, setup))
        step = self._step
        return {"seconds": seconds, "devices": step.devices, "held": step.held, "moved": step.moved}

    def first(self) -> dict:
        """Runs the first step and returns its memory and the values to compare."""
        from mtf_imaging.planner.bench.subject import peak_above

        losses = []
        peak = peak_above(lambda: losses.append(self._step.take()), self._step.devices)
        return {"peak": peak, "loss": losses[0], "gradient_norm": self._step.gradient_norm}

    def second(self) -> dict:
        """Runs a step and returns the memory of its tensors."""
        from mtf_imaging.planner.bench.subject import tensors_above

        return {"tensors": tensors_above(self._step.take, self._step.devices)}

    def step(self) -> dict:
        """Runs a step and returns its time."""
        return {"seconds": timed(self._step.take)[0]}


def timed(function: Callable[[], object]) -> tuple[float, object]:
    """Returns the duration of a call in seconds, and its result."""
    began = time.perf_counter()
    result = function()
    return time.perf_counter() - began, result
