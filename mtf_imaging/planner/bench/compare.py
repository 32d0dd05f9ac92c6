"""Setups side by side: each builds, then all take a step in turn, round after round, in a new order each time.

What else a machine does comes and goes; within a round it is the same for all, so ratios within a round mean something
where seconds do not.
"""

import dataclasses
import math
import random
import statistics
from collections.abc import Callable, Sequence

from mtf_imaging.planner.bench.process import Process, WorkerError
from mtf_imaging.planner.bench.subject import Setup
from mtf_imaging.planner.cost.plan import Plan

# Of (the first loss, its gradient's norm), as shares of them. Sums are made in another order under every layout; and
# where rounding takes a value over the kink of a ReLU, or another voxel of a pool, gradients jump.
TOLERANCES = {"float64": (1e-9, 1e-9), "float32": (1e-5, 2e-2), "bfloat16": (2e-2, 1e-1)}


@dataclasses.dataclass
class Row:
    """What was found of a setup.

    Attributes:
      setup: which.
      error: why it is not measured, if so.
      plan: what is modelled of it.
      build: seconds.
      devices: names of those that it uses.
      held: bytes of its variables.
      moved: bytes that processors send each other in a step, all together.
      loss, gradient_norm: of the first step.
      steps: seconds of each step.
      ratios: of these to those of the first setup that could be measured, round by round.
      peak: bytes that the first step held above what the process held before.
      tensors: the same of the second step, of tensors alone.
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
        """The median of its steps."""
        return statistics.median(self.steps) if self.steps and self.error is None else None

    @property
    def ratio(self) -> float | None:
        """The median of its ratios."""
        return statistics.median(self.ratios) if self.ratios and self.error is None else None


def measure(rows: Sequence[Row], start: Callable[[], Process], rounds: int, seed: int, say: Callable, done: Callable):
    """Fills in rows that have no error; one whose process fails gets it.

    Args:
      rows: what is measured.
      start: starts a process.
      rounds: steps of each.
      seed: of the order within rounds.
      say: told what happens next.
      done: called after each step.
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
            for number in order.sample(sorted(alive), len(alive)):
                _attempt(alive, rows, number, _take)
                done()
    finally:
        for process in alive.values():
            process.close()
    whole = [row for row in rows if row.error is None]
    for row in whole:
        row.ratios = [seconds / first for seconds, first in zip(row.steps, whole[0].steps, strict=True)]


def _attempt(alive, rows, number, measured):
    try:
        measured(alive[number], rows[number])
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
    """What differs of the first losses and gradients by more than rounding: there must be nothing.

    Args:
      rows: those measured; each is held against the first.
      dtype: of the job, on which the tolerance depends.
    """
    found = []
    rows = [row for row in rows if row.loss is not None]
    for row in rows[1:]:
        for (what, attribute), tolerance in zip(_COMPARED, TOLERANCES[dtype], strict=True):
            value, expected = getattr(row, attribute), getattr(rows[0], attribute)
            off = abs(value - expected) / max(abs(expected), 1e-30) if math.isfinite(value - expected) else math.inf
            if off > tolerance:
                found.append(
                    f"{what} is {value:.9g} under {row.setup.name} and {expected:.9g} under {rows[0].setup.name}: "
                    f"{off:.1e} of it, more than {tolerance:g}, the tolerance of {dtype}"
                )
    return found


_COMPARED = (("the first loss", "loss"), ("the norm of the first gradient", "gradient_norm"))
