"""Checkpoints that are written in the background, while the next steps run."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from mtf_imaging.engine.meshes.devices import host_device


class Background:
    """Runs one function at a time in another thread."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def start(self, call: Callable[[], None]) -> None:
        """Starts a function, after the previous one has ended.

        Raises:
          Exception: the previous function failed; the new one is not started.
        """
        self.wait()
        # Not a daemon thread: the process does not end before the function does.
        self._thread = threading.Thread(target=self._run, args=[call], name="checkpoint")
        self._thread.start()

    def wait(self) -> None:
        """Waits until the function has ended.

        Raises:
          Exception: the function failed. The error is raised only once.
        """
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _run(self, call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as error:  # raised by `wait`
            self._error = error


class Snapshot(tf.Module):
    """A copy of a program's variables in host memory, with the same names in a checkpoint.

    Args:
      variables: the values of the variables, by name.
      step: the number of steps.
    """

    def __init__(self, variables: Mapping[str, Any], step: Any) -> None:
        super().__init__()
        with tf.device(host_device()):
            # These names are parts of the keys in checkpoints; see `Program` and `Variables`.
            self._masters = tf.Module()
            self._masters._named = {name: tf.Variable(value) for name, value in variables.items()}
            self._masters.step = self.step = tf.Variable(step, dtype=tf.int64)
