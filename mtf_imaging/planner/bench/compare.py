"""Comparison of setups: each is built, then all run one step per round, in a new random order every round.

Other load on the machine changes over time but affects all setups of a round equally. Ratios within a round are
therefore more reliable than seconds.
"""

import dataclasses
import math
import random
import statistics
from collections.abc import Callable, Sequence

from mtf_imaging.planner.bench.process import Process, WorkerError
from mtf_imaging.planner.bench.subject import Setup
from mtf_imaging.planner.cost.plan import Plan

# Relative tolerances of (first loss, gradient norm). Each layout sums in a different order. Gradients
# jump if rounding moves a value across the kink of a ReLU or changes the maximum of a pool.
TOLERANCES = {"float64": (1e-9, 1e-9), "float32": (1e-5, 2e-2), "bfloat16": (2e-2, 1e-1)}


@dataclasses.dataclass
class Row:
    """The measurements of one setup.

    Attributes:
      setup: the setup.
      error: the reason that the setup could not be measured, or None.
      plan: the model of the step.
      build: seconds to build the step.
      devices: the names of the devices in use.
      held: bytes of the variables.
      moved: bytes that all processors together send in a step.
      loss: the loss of the first step.
      gradient_norm: the gradient norm in the first step.
      steps: seconds of each step.
      ratios: for each round, the step time divided by the step time of the first setup without an error.
      peak: bytes that the first step adds to the memory of the process.
      tensors: bytes that the second step adds to the memory of tensors.
    """

    setup: Setup
    error: str | None = None
    plan: Plan | None = None
    build: float | None = None
    devices: list[str] = dataclasses.field(default_factory=list)
    held: int = 0
    moved: int | None = None
    loss: float | None = None
    gradient_norm: float | None = None
    steps: list[float] = dataclasses.field(default_factory=list)
    ratios: list[float] = dataclasses.field(default_factory=list)
    peak: int | None = None
    tensors: int | None = None

    @property
    def seconds(self) -> float | None:
        """The median step time in seconds."""
        return statistics.median(self.steps) if self.steps and self.error is None else None

    @property
    def ratio(self) -> float | None:
        """The median ratio."""
        return statistics.median(self.ratios) if self.ratios and self.error is None else None


def measure(
    rows: Sequence[Row],
    start: Callable[[], Process],
    rounds: int,
    seed: int,
    say: Callable,
    done: Callable,
    begin_round: Callable[[], object] = lambda: None,
):
    """Measures all rows that have no error; a row gets an error if its process fails.

    Args:
      rows: the rows to fill in.
      start: a function that starts a process.
      rounds: the number of steps per setup.
      seed: the seed for the order within rounds.
      say: a function that is called with a description of the next action.
      done: a function that is called after each step.
      begin_round: a function that is called before the steps of each round.
    """
    alive, order = {}, random.Random(seed)
    try:
        for number, row in enumerate(rows):
            if row.error is None:
                say(f"build {row.setup.name}")
                alive[number] = start()
                _attempt(alive, rows, number, _begin)
        for _ in range(rounds if alive else 0):
            say("steps in turn")
            begin_round()
            for number in order.sample(sorted(alive), len(alive)):
                _attempt(alive, rows, number, _take)
                done()
    finally:
        for process in alive.values():
            process.close()
    complete = [row for row in rows if row.error is None]
    for row in complete:
        row.ratios = [seconds / first for seconds, first in zip(row.steps, complete[0].steps, strict=True)]


def _attempt(alive, rows, number, action):
    try:
        action(alive[number], rows[number])
    except WorkerError as error:
        rows[number].error = str(error)
        alive.pop(number).close()


def _begin(process, row):
    built = process.ask("build", row.setup)
    row.build, row.devices, row.held, row.moved = (built[key] for key in ("seconds", "devices", "held", "moved"))
    first = process.ask("first")
    row.loss, row.gradient_norm, row.peak = first["loss"], first["gradient_norm"], first["peak"]
    row.tensors = process.ask("second")["tensors"]


def _take(process, row):
    row.steps.append(process.ask("step")["seconds"])


def unequal(rows: Sequence[Row], dtype: str) -> list[str]:
    """Describes the first losses and gradients that differ by more than rounding.

    Args:
      rows: the measured rows; each is compared with the first.
      dtype: the dtype of the job, which determines the tolerance.

    Returns:
      One description per difference; empty if all setups agree.
    """
    differences = []
    rows = [row for row in rows if row.loss is not None]
    for row in rows[1:]:
        for (what, attribute), tolerance in zip(_COMPARED, TOLERANCES[dtype], strict=True):
            value, expected = getattr(row, attribute), getattr(rows[0], attribute)
            off = abs(value - expected) / max(abs(expected), 1e-30) if math.isfinite(value - expected) else math.inf
            if off > tolerance:
                differences.append(
                    f"{what} is {value:.9g} under {row.setup.name} and {expected:.9g} under {rows[0].setup.name}: "
                    f"the relative difference is {off:.1e}, above the tolerance {tolerance:g} of {dtype}"
                )
    return differences


_COMPARED = (("the first loss", "loss"), ("the norm of the first gradient", "gradient_norm"))
