"""The bench of a job: what gin has bound, in this process for the model and in others for what is measured."""

import functools
import json
import logging
import sys

from tqdm import tqdm

from mtf_imaging.cli.config.bench_setups import ONE_PROCESSOR, NamedSetup
from mtf_imaging.cli.config.setup_flags import Configuration
from mtf_imaging.errors import LayoutError, MtfImagingError
from mtf_imaging.jobs.plan import Planned
from mtf_imaging.planner.bench.compare import Row, measure, unequal
from mtf_imaging.planner.bench.machine import largest_convolution
from mtf_imaging.planner.bench.model import Bench
from mtf_imaging.planner.bench.process import Process, WorkerError
from mtf_imaging.planner.bench.subject import NormKeeping, Setup, Subject
from mtf_imaging.planner.bench.table import as_dict, text
from mtf_imaging.planner.cost.plan import Plan, make_plan
from mtf_imaging.planner.cost.step import Step, trace_step
from mtf_imaging.program.tracing import check
from mtf_imaging.training.task import task_inputs

_logger = logging.getLogger(__name__)


def subject_of(planned: Planned) -> Subject:
    """The step of the job that gin has bound."""
    setup, job = planned.setup, planned.job
    inputs = task_inputs(job.task, setup.batch_size, planned.sizes, dtype=job.dtype)
    training = planned.training
    return Subject(job.task, training.optimizer, inputs, setup.micro_batches, setup.mesh_impl, training.seed)


def make_subject(configuration: Configuration, data_dir: str | None) -> Subject:
    """The same in another process, where nothing is bound yet."""
    return subject_of(Planned.bound(configuration.bind(), data_dir))


def bench(
    configuration: Configuration, setups: list[NamedSetup], data_dir: str | None, steps: int, as_json: bool
) -> None:
    """Measures setups of a job, by default its own beside one processor, and prints what is found.

    Raises:
      LayoutError: none of the layouts is possible.
      MtfImagingError: setups differ in what they compute, or none could be measured.
    """
    planned = Planned.bound(configuration.bind(), data_dir)
    subject, own = subject_of(planned), planned.setup
    if not setups:
        setups = [NamedSetup(ONE_PROCESSOR, "", "")]
        if own.processors > 1:
            setups.append(NamedSetup(f"{own.mesh_shape}/{own.layout}", own.mesh_shape, own.layout))
    rows = [Row(Setup(*setup)) for setup in setups]
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

    make = functools.partial(make_subject, configuration, data_dir)
    hardware = _machine(make, traced, planned.job.dtype)
    runnable = sum(row.error is None for row in rows)
    with tqdm(total=runnable * steps, desc="bench", unit="step", dynamic_ncols=True, file=sys.stderr) as bar:

        def say(what):
            if what != bar.desc:
                bar.unpause()  # builds are no part of its rate
                bar.set_description_str(what)

        measure(rows, lambda: Process(make), steps, subject.seed, say, bar.update)
    for row in rows:
        if row.error is None and len(row.devices) > 1:  # known only now
            row.plan, _ = _plan(subject, row.setup, row.devices)
    found = Bench(rows, hardware, planned.job.dtype, own.batch_size, subject.parts)
    differences = unequal(rows, planned.job.dtype)
    print(json.dumps(as_dict(found, differences), indent=1) if as_json else text(found, equal=not differences))
    if differences:
        raise MtfImagingError("\n".join(["results depend on the layout, which they must not:", *differences]))
    if all(row.error is not None for row in rows):
        raise MtfImagingError("no setup could be measured; each says above why.")


def _plan(subject: Subject, setup: Setup, devices=("CPU:0",)) -> tuple[Plan, Step]:
    """The plan of what is measured: the optimizer keeps the norm of the gradient, too.

    Raises:
      LayoutError: the layout is not possible.
    """
    mesh = setup.mesh_shape, setup.layout
    step = trace_step(subject.task, NormKeeping(subject.optimizer), subject.inputs, *mesh, subject.parts, devices)
    check(step.traced, *mesh)
    return make_plan(step, *mesh, len(devices)), step


def _machine(make, step, dtype):
    """Measures the hardware, in a process of its own: what that holds is then gone."""
    process = Process(make)
    try:
        return process.ask("machine", *largest_convolution(step), dtype)["hardware"]
    except WorkerError as error:
        raise MtfImagingError(f"this machine could not be measured: {error}") from error
    finally:
        process.close()
