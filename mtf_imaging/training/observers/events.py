"""TensorBoard events of a training run, and the values of a step that they and experiment trackers show."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mtf_imaging.training.observers.event_file import EventFile
from mtf_imaging.training.observers.observer import Observer


class StepValues:
    """Adds the learning rate and the speed to the loss and the measures of a step.

    Args:
      learning_rate: a function that maps the step number to the learning rate.
      batch_size: volumes in a step.
    """

    def __init__(self, learning_rate: Callable[[int], float], batch_size: int) -> None:
        self._learning_rate, self._batch_size = learning_rate, batch_size

    def __call__(self, step: int, values: Mapping[str, Any], seconds: float, waited: float) -> dict[str, Any]:
        """Returns the numbers by name. It takes the arguments of `Observer.after`."""
        return {
            **values,
            "learning_rate": self._learning_rate(step),
            "seconds_per_step": seconds,
            "volumes_per_second": self._batch_size / seconds,
            "data_wait": waited,
        }


class TrainingEvents(Observer):
    """Writes TensorBoard events of every step, and texts about the run.

    The events of a step are the numbers of `StepValues`: the loss, the task's measures, the learning rate, the speed,
    and the fraction of the step that was spent waiting for data.

    Args:
      folder: folder of the events.
      learning_rate: a function that maps the step number to the learning rate.
      batch_size: volumes in a step.
      texts: Markdown texts by name, written with the first step.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        learning_rate: Callable[[int], float],
        batch_size: int,
        texts: dict[str, str] | None = None,
    ) -> None:
        self._folder, self._step_values = folder, StepValues(learning_rate, batch_size)
        self._texts = texts or {}
        self._file: EventFile | None = None

    def begin(self, step: int) -> None:
        self._file = EventFile(self._folder, step)

    def after(self, step: int, values: dict[str, Any], cases: list[str], seconds: float, waited: float) -> None:
        assert self._file is not None, "begin must be called first"
        for name in list(self._texts):
            self._file.text(step, name, self._texts.pop(name))
        self._file.scalars(step, self._step_values(step, values, seconds, waited))

    def close(self) -> None:
        if self._file:
            self._file.close()
