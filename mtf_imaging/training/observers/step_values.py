"""The values of a step that TensorBoard and experiment trackers show."""

from collections.abc import Callable, Mapping
from typing import Any


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
