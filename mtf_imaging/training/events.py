"""What TensorBoard shows of a training run."""

import collections
import statistics

from mtf_imaging.training.event_file import EventFile
from mtf_imaging.training.observer import Observer

_TIMED_STEPS = 20


class TrainingEvents(Observer):
    """Writes, a step: the loss, the task's measures, the learning rate and the speed; and texts about the run.

    Args:
      folder: of the events.
      learning_rate: a function of the step's number.
      batch_size: volumes in a step. Volumes per second are those of the median of the last steps, with the wait for
        their batches, and without evaluation and checkpoints.
      texts: Markdown by name, written where the run begins.
    """

    def __init__(self, folder, *, learning_rate, batch_size, texts=None):
        self._folder, self._learning_rate, self._batch_size = folder, learning_rate, batch_size
        self._texts = texts or {}
        self._seconds = collections.deque(maxlen=_TIMED_STEPS)
        self._file = None

    def begin(self, step):
        self._file = EventFile(self._folder, step)

    def after(self, step, values, cases, seconds):
        for name in list(self._texts):
            self._file.text(step, name, self._texts.pop(name))
        self._seconds.append(seconds)
        speed = self._batch_size / statistics.median(self._seconds)
        own = {"learning_rate": self._learning_rate(step), "volumes_per_second": speed}
        self._file.scalars(step, {**values, **own})

    def close(self):
        if self._file:
            self._file.close()
