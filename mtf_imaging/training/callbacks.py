"""Functions of the user that receive the values of every step, and can stop the run or change its learning rate."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mtf_imaging.engine.meshes.group import Group
from mtf_imaging.engine.program.program import Program
from mtf_imaging.files.run_folder import EVAL
from mtf_imaging.parameters import check_value
from mtf_imaging.training.observers.observer import Observer
from mtf_imaging.training.observers.step_table import read_numbers
from mtf_imaging.training.optimizers.optimizer import FACTOR, Optimizer

# Receives the number of finished steps and the values of the last one, and returns a reason to stop, or None.
Callback = Callable[[int, Mapping[str, float]], str | None]


class Callbacks(Observer):
    """Calls functions after every step, in process 0.

    The values are "loss" and the measures of the task; after an evaluation also the scores of held-out cases, such as
    "held_out/dice". A resumed run first passes the earlier values, which the tables of the run hold in full precision,
    to the functions with a state, so that they act as in an uninterrupted run.

    Args:
      functions: the functions.
      folder: the folder of the run.
      group: the processes.
    """

    def __init__(self, functions: Sequence[Callback], folder: Path, group: Group) -> None:
        self._functions, self._folder, self._group = functions, folder, group
        self._scores: dict[str, float] = {}
        self._reason: str | None = None

    @property
    def reducing(self) -> "list[ReduceOnPlateau]":
        """The functions that change the learning rate. Every process follows them."""
        return [function for function in self._functions if isinstance(function, ReduceOnPlateau)]

    def follow(self, optimizer: Optimizer, program: Program) -> None:
        """Sets the optimizer `with_factor`, and the program that trains with it."""
        self._optimizer, self._program = optimizer, program

    def scores(self, step: int, scores: Mapping[str, float]) -> None:
        """Receives the scores of an evaluation."""
        self._scores = _held_out(scores)

    def begin(self, step: int) -> None:
        with_state: list[Any] = [function for function in self._functions if isinstance(function, Plateau)]
        for function in with_state:
            function.reset()
        if with_state and self._group.is_first:
            losses, scores = read_numbers(self._folder / "losses.csv", step), read_numbers(_scores_of(self._folder))
            for number in range(1, step + 1):
                values = losses.get(number - 1, {}) | _held_out(scores.get(number, {}))
                self._call(with_state, number, values)
            self._scores = {}
        self._share_factor()

    def after(self, step: int, values: dict[str, Any], cases: list[str], seconds: float, waited: float) -> None:
        if self._group.is_first:
            # As text in between, because that is what a resumed run reads.
            own = {name: float(str(value)) for name, value in values.items()} | self._scores
            self._scores = {}
            self._call(self._functions, step + 1, own)
        self._share_factor()

    def reason(self) -> str | None:
        """Returns the reason for which a function stops the run; None to continue."""
        return self._reason

    def _call(self, functions: Sequence[Callback], step: int, values: Mapping[str, float]) -> None:
        for function in functions:
            self._reason = function(step, values) or self._reason

    def _share_factor(self) -> None:
        if reducing := self.reducing:
            factor = self._group.first(lambda: math.prod(function.value for function in reducing))
            self._optimizer.factor = factor
            self._program.variables[FACTOR].assign(factor)


def _scores_of(folder: Path) -> Path:
    return folder / EVAL / "scores.csv"


def _held_out(scores: Mapping[str, float]) -> dict[str, float]:
    return {f"held_out/{name}": float(value) for name, value in scores.items()}


class Plateau:
    """Watches whether a value becomes better.

    Args:
      monitor: the name of the value, such as "held_out/dice" or "loss".
      steps: the number of steps without a better value.
      higher_is_better: whether the value should grow.
      least: how much better a value must be.
    """

    def __init__(self, monitor: str, steps: int, higher_is_better: bool = True, least: float = 0.0) -> None:
        check_value(f"{type(self).__name__}.steps", steps, int)
        self._monitor, self._steps, self._least = monitor, steps, least
        self._sign = 1 if higher_is_better else -1
        self.reset()

    def reset(self) -> None:
        """Forgets all values, when a run begins."""
        self._best, self._at = -math.inf, 0

    def is_reached(self, step: int, values: Mapping[str, float]) -> bool:
        """Returns whether the value has not become better for some steps."""
        value = self._sign * values.get(self._monitor, math.nan)
        if value > self._best + self._least:
            self._best, self._at = value, step
        return not math.isnan(value) and step - self._at >= self._steps


class EarlyStopping(Plateau):
    """Stops a run when a value has not become better for some steps.

    Args:
      monitor: the name of the value, such as "held_out/dice" or "loss".
      steps: the number of steps without a better value.
      higher_is_better: whether the value should grow.
      least: how much better a value must be.
    """

    def __call__(self, step: int, values: Mapping[str, float]) -> str | None:
        """Returns a reason to stop, or None."""
        if not self.is_reached(step, values):
            return None
        return f"{self._monitor} has not become better than {self._sign * self._best:.4f} since step {self._at}"


class ReduceOnPlateau(Plateau):
    """Multiplies the learning rate by a factor whenever a value has not become better for some steps.

    Args:
      monitor: the name of the value, such as "held_out/dice" or "loss".
      steps: the number of steps without a better value, since the last reduction.
      factor: the factor, between 0 and 1.
      higher_is_better: whether the value should grow.
      least: how much better a value must be.
      lowest: the lowest product of all factors.

    Attributes:
      value: the product of all factors so far.
    """

    def __init__(
        self,
        monitor: str,
        steps: int,
        factor: float = 0.1,
        higher_is_better: bool = True,
        least: float = 0.0,
        lowest: float = 0.0,
    ) -> None:
        check_value("ReduceOnPlateau.factor", factor, float, below=1)
        super().__init__(monitor, steps, higher_is_better, least)
        self._factor, self._lowest = factor, lowest

    def reset(self) -> None:
        super().reset()
        self.value = 1.0

    def __call__(self, step: int, values: Mapping[str, float]) -> None:
        """Updates the factor."""
        if self.is_reached(step, values):
            self.value, self._at = max(self.value * self._factor, self._lowest), step
