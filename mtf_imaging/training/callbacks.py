"""Functions of the user that receive the values of every step, and can stop the run."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mtf_imaging.training.observers.observer import Observer

# Receives the number of finished steps and the values of the last one, and returns a reason to stop, or None.
Callback = Callable[[int, Mapping[str, float]], str | None]


class Callbacks(Observer):
    """Calls functions after every step.

    The values are "loss" and the measures of the task; after an evaluation also the scores of held-out cases, such as
    "held_out/dice".

    Args:
      functions: the functions.
    """

    def __init__(self, functions: Sequence[Callback]) -> None:
        self._functions = functions
        self._scores: dict[str, float] = {}
        self._reason: str | None = None

    def scores(self, step: int, scores: Mapping[str, float]) -> None:
        """Receives the scores of an evaluation."""
        self._scores = {f"held_out/{name}": float(value) for name, value in scores.items()}

    def after(self, step: int, values: dict[str, Any], cases: list[str], seconds: float, waited: float) -> None:
        own = {name: float(value) for name, value in values.items()} | self._scores
        self._scores = {}
        for function in self._functions:
            self._reason = function(step + 1, own) or self._reason

    def reason(self) -> str | None:
        """Returns the reason for which a function stops the run; None to continue."""
        return self._reason


class EarlyStopping:
    """Stops a run when a value has not become better for some steps.

    Args:
      monitor: the name of the value, such as "held_out/dice" or "loss".
      steps: the number of steps without a better value.
      higher_is_better: whether the value should grow.
      least: how much better a value must be.
    """

    def __init__(self, monitor: str, steps: int, higher_is_better: bool = True, least: float = 0.0) -> None:
        self._monitor, self._steps, self._least = monitor, steps, least
        self._sign = 1 if higher_is_better else -1
        self._best, self._at = -float("inf"), 0

    def __call__(self, step: int, values: Mapping[str, float]) -> str | None:
        """Returns a reason to stop, or None."""
        if self._monitor not in values:
            return None
        value = self._sign * values[self._monitor]
        if value > self._best + self._least:
            self._best, self._at = value, step
        if step - self._at < self._steps:
            return None
        return f"{self._monitor} has not become better than {self._sign * self._best:.4f} since step {self._at}"
