"""Measures training steps under several layouts and compares them with the planner's model."""

import logging
import sys
from collections.abc import Sequence

from tqdm import tqdm

from mtf_imaging.errors import LayoutError, MtfImagingError
from mtf_imaging.jobs.explaining import planned_recipe, planned_step
from mtf_imaging.jobs.settings import check_count
from mtf_imaging.kinds.settings import Resolution, check_choice
from mtf_imaging.layout import MESH_IMPLS, Layout
from mtf_imaging.planner.bench.compare import Row, measure, unequal
from mtf_imaging.planner.bench.machine import kernels_of_step
from mtf_imaging.planner.bench.model import Bench
from mtf_imaging.planner.bench.process import Process, WorkerError
from mtf_imaging.planner.bench.subject import Setup, Subject
from mtf_imaging.planner.cost.hardware import Hardware
from mtf_imaging.planner.cost.plan import Plan, make_plan
from mtf_imaging.planner.cost.recipe import UNKNOWN_RECIPE, Recipe
from mtf_imaging.program.tracing import check
from mtf_imaging.training.optimizers import Optimizer
from mtf_imaging.training.step import TracedStep, TrainingStep
from mtf_imaging.training.task import Task

_logger = logging.getLogger(__name__)
ONE_PROCESSOR_NAME = "one processor"


def bench(
    *,
    task: Task,
    resolution: Resolution,
    layouts: Sequence[Layout | Setup] = (),
    steps: int = 10,
    mesh_impl: str = "auto",
    optimizer: Optimizer | None = None,
    batch_size: int = 1,
    micro_batches: int = 1,
    dtype: str = "float32",
    seed: int = 0,
    progress: bool = True,
    num_steps: int | None = None,
    price_per_hour: float | None = None,
) -> Bench:
    """Measures the time, memory and exchanges of training steps, and compares them with the planner's model.

    The layouts take their steps in turn. Each layout runs in a separate process, so the task and the optimizer must be
    picklable. All layouts must compute the same first loss and gradient; `Bench.differences` lists the layouts that do
    not.

    Args:
      task: the network and its loss.
      resolution: voxels along x, y and z.
      layouts: the layouts, or `Setup`s, which add names for the table. The first layout is the reference. Without
        layouts, one processor is measured.
      steps: number of timed steps per layout.
      mesh_impl: the mesh implementation, as in `Program`.
      optimizer: the optimizer; None for Adam.
      batch_size: images in a step, summed over all processors.
      micro_batches: number of equal pieces of a batch, computed one after the other.
      dtype: the dtype of images and activations.
      seed: the seed of weights, random operations and the batch.
      progress: whether to show a progress bar.
      num_steps: number of steps of the training, to compute its hours from the measured step; None for the steps per
        second only.
      price_per_hour: price of one device for one hour, in any currency, to compute the cost of the training.

    Returns:
      The measured and the modeled costs of each layout. `report` formats them as text.

    Raises:
      LayoutError: none of the layouts is legal.
      ConfigError: an argument is invalid, or the task cannot be pickled.
      MtfImagingError: the speed of this machine cannot be measured.
    """
    check_count("steps", steps)
    check_choice("mesh_impl", mesh_impl, MESH_IMPLS)
    recipe = planned_recipe(num_steps, price_per_hour)
    step = planned_step(task, resolution, optimizer, batch_size, micro_batches, dtype, seed)
    setups = [as_setup(layout) for layout in layouts]
    return bench_step(step, setups, steps, mesh_impl, recipe=recipe, progress=progress)


def as_setup(layout: Layout | Setup) -> Setup:
    """Returns a `Setup` unchanged; wraps a layout in a `Setup`, named as in the table."""
    if isinstance(layout, Setup):
        return layout
    name = f"{layout.mesh_string}/{layout.rules_string}" if layout.mesh_shape else ONE_PROCESSOR_NAME
    return Setup(name, layout)


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
                bar.unpause()  # the time of building does not count in the rate
                bar.set_description_str(what)

        measure(rows, lambda: Process(subject), steps, step.seed, show, bar.update, machine.sample)
        hardware = machine.hardware()
    for row in rows:
        if row.error is None and len(row.devices) > 1:  # the measurement reports the devices
            row.plan, _ = _plan(subject, row.setup, row.devices)
    differences = tuple(unequal(rows, step.dtype))
    return Bench(rows, hardware, step.dtype, step.batch_size, step.micro_batches, differences, recipe)


def _plan(subject: Subject, setup: Setup, devices: Sequence[str] = ("CPU:0",)) -> tuple[Plan, TracedStep]:
    """Returns the plan of the measured step, which also keeps the norm of the gradient.

    Raises:
      LayoutError: the layout is illegal.
    """
    step = subject.keeping_norm().trace(setup.layout, devices)
    check(step.traced, setup.layout)
    return make_plan(step, setup.layout, len(devices)), step


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
