"""Measures training steps under several layouts, beside the planner's model."""

import logging
import sys
from collections.abc import Sequence

from tqdm import tqdm

from mtf_imaging.errors import LayoutError, MtfImagingError
from mtf_imaging.jobs.explaining import planned_step
from mtf_imaging.jobs.settings import Resolution, check_choice, check_count
from mtf_imaging.layout import MESH_IMPLS, Layout
from mtf_imaging.planner.bench.compare import Row, measure, unequal
from mtf_imaging.planner.bench.machine import largest_convolution
from mtf_imaging.planner.bench.model import Bench
from mtf_imaging.planner.bench.process import Process, WorkerError
from mtf_imaging.planner.bench.subject import Setup, Subject
from mtf_imaging.planner.cost.hardware import Hardware
from mtf_imaging.planner.cost.plan import Plan, make_plan
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
) -> Bench:
    """Takes training steps under several layouts in turn, and returns times, memory and exchanges beside the model.

    Every layout has a process of its own, so the task and the optimizer must be picklable. All layouts must compute the
    same first loss and gradient; `Bench.differences` lists those that do not.

    Args:
      task: the network and its loss.
      resolution: voxels along x, y and z.
      layouts: the layouts, or `Setup`s with names for tables; the first is the reference. None is one processor.
      steps: timed steps of each layout.
      mesh_impl: as of a `Program`.
      optimizer: what moves the variables; None for Adam.
      batch_size: images in a step, over all processors.
      micro_batches: equal pieces of a batch.
      dtype: of images and activations.
      seed: of weights, random operations and the batch.
      progress: whether to show a progress bar.

    Raises:
      LayoutError: none of the layouts is legal.
      ConfigError: an argument that cannot be used, or a task that cannot be sent to a process.
      MtfImagingError: this machine could not be measured.
    """
    check_count("steps", steps)
    check_choice("mesh_impl", mesh_impl, MESH_IMPLS)
    step = planned_step(task, resolution, optimizer, batch_size, micro_batches, dtype, seed)
    return bench_step(step, [as_setup(layout) for layout in layouts], steps, mesh_impl, progress=progress)


def as_setup(layout: Layout | Setup) -> Setup:
    """Returns a `Setup` as it is, and a layout under the name that tables show for it."""
    if isinstance(layout, Setup):
        return layout
    name = f"{layout.mesh_string}/{layout.rules_string}" if layout.mesh_shape else ONE_PROCESSOR_NAME
    return Setup(name, layout)


def bench_step(
    step: TrainingStep, setups: Sequence[Setup], steps: int = 10, mesh_impl: str = "auto", *, progress: bool = True
) -> Bench:
    """As `bench`, of a `TrainingStep`."""
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

    hardware = _machine(subject, traced, step.dtype)
    runnable = sum(row.error is None for row in rows)
    with tqdm(
        total=runnable * steps, desc="bench", unit="step", dynamic_ncols=True, file=sys.stderr, disable=not progress
    ) as bar:

        def say(what: str) -> None:
            if not bar.disable and what != bar.desc:
                bar.unpause()  # builds are no part of its rate
                bar.set_description_str(what)

        measure(rows, lambda: Process(subject), steps, step.seed, say, bar.update)
    for row in rows:
        if row.error is None and len(row.devices) > 1:  # known only now
            row.plan, _ = _plan(subject, row.setup, row.devices)
    differences = tuple(unequal(rows, step.dtype))
    return Bench(rows, hardware, step.dtype, step.batch_size, step.micro_batches, differences)


def _plan(subject: Subject, setup: Setup, devices: Sequence[str] = ("CPU:0",)) -> tuple[Plan, TracedStep]:
    """The plan of what is measured: the optimizer keeps the norm of the gradient, too.

    Raises:
      LayoutError: the layout is not possible.
    """
    step = subject.keeping_norm().trace(setup.layout, devices)
    check(step.traced, setup.layout)
    return make_plan(step, setup.layout, len(devices)), step


def _machine(subject: Subject, step: TracedStep, dtype: str) -> Hardware:
    """Measures the hardware in a process of its own, whose memory is then free again."""
    process = Process(subject)
    try:
        return process.ask("machine", *largest_convolution(step), dtype)["hardware"]
    except WorkerError as error:
        raise MtfImagingError(f"this machine could not be measured: {error}") from error
    finally:
        process.close()
