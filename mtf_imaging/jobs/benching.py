"""Measures training steps under several layouts and compares them with the planner's model."""

import logging
import sys
from collections.abc import Sequence

from tqdm import tqdm

from mtf_imaging.engine.layout import Layout
from mtf_imaging.engine.program.tracing import check
from mtf_imaging.errors import LayoutError, MtfImagingError
from mtf_imaging.jobs.explaining import planned_step
from mtf_imaging.jobs.steps.costs import turn_costs
from mtf_imaging.planner.bench.compare import Row, measure, unequal
from mtf_imaging.planner.bench.machine import kernels_of_step
from mtf_imaging.planner.bench.model import Bench
from mtf_imaging.planner.bench.process import Process, WorkerError
from mtf_imaging.planner.bench.subject import Setup, Subject
from mtf_imaging.planner.cost.hardware import Hardware
from mtf_imaging.planner.cost.plan import Plan, make_plan
from mtf_imaging.planner.cost.recipe import UNKNOWN_RECIPE, Recipe
from mtf_imaging.settings.planning import BenchSettings
from mtf_imaging.settings.setting import takes
from mtf_imaging.training.step import TracedStep, TrainingStep

_logger = logging.getLogger(__name__)
ONE_PROCESSOR_NAME = "one processor"


@takes(BenchSettings)
def bench(own: BenchSettings) -> Bench:
    """Measures the time, memory and exchanges of training steps, and compares them with the planner's model.

    The layouts take their steps in turn. Each layout runs in a separate process, so the task and the optimizer must be
    picklable. All layouts must compute the same first loss and gradient; `Bench.differences` lists the layouts that do
    not.

    Returns:
      The measured and the modeled costs of each layout. `report` formats them as text.

    Raises:
      LayoutError: none of the layouts is legal.
      ConfigError: an argument is invalid, or the task cannot be pickled.
      MtfImagingError: the speed of this machine cannot be measured.
    """
    recipe = Recipe(own.num_steps, own.price_per_hour)
    setups = [as_setup(layout) for layout in own.layouts]
    return bench_step(planned_step(own), setups, own.steps, own.mesh_impl, recipe=recipe, progress=own.progress)


def as_setup(layout: Layout | Setup) -> Setup:
    """Returns a `Setup` unchanged; wraps a layout in a `Setup` with its name for the table."""
    if isinstance(layout, Setup):
        return layout
    name = f"{layout.mesh_string}/{layout.rules_string}" if layout.mesh_shape else ONE_PROCESSOR_NAME
    return Setup(f"{name} in turns" if layout.sequential else name, layout)


def bench_step(
    step: TrainingStep,
    setups: Sequence[Setup],
    steps: int = 10,
    mesh_impl: str = "auto",
    *,
    recipe: Recipe = UNKNOWN_RECIPE,
    progress: bool = True,
) -> Bench:
    """Does the same as `bench`, for a `TrainingStep`."""
    subject = Subject(step, mesh_impl)
    rows = [Row(setup) for setup in setups or [Setup(ONE_PROCESSOR_NAME)]]
    faults, traced = [], None
    for row in rows:
        try:
            row.plan, traced = _plan(subject, row.setup)
        except LayoutError as error:
            row.error = str(error)
            faults.append(f"{row.setup.name}: {error}")
    if traced is None:
        raise LayoutError("\n".join(faults))
    for fault in faults:
        _logger.warning("%s", fault)

    runnable = sum(row.error is None for row in rows)
    with (
        _Machine(subject, traced, step.dtype) as machine,
        tqdm(
            total=runnable * steps, desc="bench", unit="step", dynamic_ncols=True, file=sys.stderr, disable=not progress
        ) as bar,
    ):

        def show(what: str) -> None:
            if not bar.disable and what != bar.desc:
                bar.unpause()  # the building time does not affect the displayed rate
                bar.set_description_str(what)

        measure(rows, lambda: Process(subject), steps, step.seed, show, bar.update, machine.sample)
        hardware = machine.hardware()
    for row in rows:
        if row.error is None and len(row.devices) > 1:  # the measurement reports the actual devices
            row.plan, _ = _plan(subject, row.setup, row.devices)
    differences = tuple(unequal(rows, step.dtype))
    return Bench(rows, hardware, step.dtype, step.batch_size, step.micro_batches, differences, recipe)


def _plan(subject: Subject, setup: Setup, devices: Sequence[str] = ("CPU:0",)) -> tuple[Plan, TracedStep]:
    """Returns the plan of the measured step, which also stores the gradient norm.

    Raises:
      LayoutError: the layout is illegal.
    """
    step, layout = subject.keeping_norm(), setup.layout
    traced = step.trace(layout, devices)
    check(traced.traced, layout)
    return make_plan(traced, layout, len(devices), turns=turn_costs(step, layout)), traced


class _Machine:
    """A process that measures the speed of this machine between the steps."""

    def __init__(self, subject: Subject, step: TracedStep, dtype: str) -> None:
        self._process = Process(subject)
        self._arguments = kernels_of_step(step), dtype

    def __enter__(self) -> "_Machine":
        try:
            self._ask("machine", *self._arguments)
            self.sample()
        except MtfImagingError:
            self._process.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._process.close()

    def sample(self) -> None:
        """Measures every kernel once."""
        self._ask("sample")

    def hardware(self) -> Hardware:
        """Returns the median rates."""
        return self._ask("hardware")["hardware"]

    def _ask(self, word: str, *arguments: object) -> dict:
        try:
            return self._process.ask(word, *arguments)
        except WorkerError as error:
            raise MtfImagingError(f"the speed of this machine cannot be measured: {error}") from error
