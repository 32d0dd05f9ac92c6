"""What TensorBoard shows of a training run."""

from mtf_imaging.training.observers.event_file import EventFile
from mtf_imaging.training.observers.observer import Observer


class TrainingEvents(Observer):
    """Writes, a step: the loss, the task's measures, the learning rate, the speed and what part of the step was a wait
    for data; and texts about the run.

    Args:
      folder: of the events.
      learning_rate: a function of the step's number.
      batch_size: volumes in a step.
      texts: Markdown by name, written where the run begins.
    """

    def __init__(self, folder, *, learning_rate, batch_size, texts=None):
        self._folder, self._learning_rate, self._batch_size = folder, learning_rate, batch_size
        self._texts = texts or {}
        self._file = None

    def begin(self, step):
        self._file = EventFile(self._folder, step)

    def after(self, step, values, cases, seconds, waited):
        for name in list(self._texts):
            self._file.text(step, name, self._texts.pop(name))
        speed = {"volumes_per_second": self._batch_size / seconds, "data_wait": waited}
        self._file.scalars(step, {**values, "learning_rate": self._learning_rate(step), **speed})

    def close(self):
        if self._file:
            self._file.close()
