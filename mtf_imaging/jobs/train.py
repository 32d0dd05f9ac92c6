"""The training of a job, where data set, network, program and loop meet."""

import logging
from collections.abc import Callable
from pathlib import Path

from mtf_imaging.cli.config.job import Job
from mtf_imaging.cli.config.job_setup import JobSetup
from mtf_imaging.cli.config.training_settings import Training, data_of, sizes_of
from mtf_imaging.cli.runtime import messages
from mtf_imaging.data.records.data_set import Records
from mtf_imaging.data.sampling.grid import format_grid
from mtf_imaging.data.sampling.sampling import format_spacing
from mtf_imaging.evaluation.report import progress
from mtf_imaging.files.run_folder import EVAL, TRAIN
from mtf_imaging.jobs import folds
from mtf_imaging.jobs import model_dir as model_dirs
from mtf_imaging.jobs.held_out import make_evaluator, open_held_out
from mtf_imaging.jobs.plan import Planned
from mtf_imaging.planner.render.text import text
from mtf_imaging.program.program import Program
from mtf_imaging.training import loop
from mtf_imaging.training.building import building
from mtf_imaging.training.checkpoints.checkpoints import Checkpoints
from mtf_imaging.training.data_set import data_batches
from mtf_imaging.training.describe import describe_run, describe_slices, fenced
from mtf_imaging.training.micro_batches import MicroBatches, in_parts, part_inputs, split_batches
from mtf_imaging.training.observers.events import TrainingEvents
from mtf_imaging.training.observers.loss_log import LossLog
from mtf_imaging.training.observers.trace import StepTrace, parse_steps
from mtf_imaging.training.step import training_step
from mtf_imaging.training.task import task_inputs

_logger = logging.getLogger(__name__)


def train(
    data_dir: str,
    model_dir: str,
    setup: JobSetup,
    eval_dir: str | None = None,
    dry_run: bool = False,
    stop: Callable = lambda: None,
    profile_steps: str | None = None,
) -> None:
    """Trains on what is in `data_dir`, or goes on; with `dry_run`, builds all and prints what it would be.

    The cases in an `eval_dir`, or held out by a fold, are segmented and scored on the way. With `profile_steps`,
    "10:13", these steps are traced.

    Raises:
      Interrupted: `stop`, which is asked before each step, gave a reason to end.
    """
    job, training = Job(), Training()
    traced = None if profile_steps is None else parse_steps(profile_steps, training.num_steps)
    data = data_of(job, training, setup)
    parted = folds.part(training, data_dir, eval_dir, model_dir)
    if parted:
        data_dir, eval_dir = parted.train, parted.val
    sizes = sizes_of(setup.resolution, training.data, data, data_dir)
    count, seed = setup.micro_batches, training.seed
    whole = task_inputs(job.task, setup.batch_size, sizes, dtype=job.dtype)
    inputs = part_inputs(whole, count)  # of what goes through the network at once: a batch, or a part of one

    def batches(start):
        options = {"sizes": sizes, "seed": seed}
        if count == 1 or training.data is not None:  # only records are known to come in the same order in any parts
            found = data_batches(data, data_dir, whole, batch_size=setup.batch_size, start_step=start, **options)
            return found if count == 1 else split_batches(found, whole, count)
        size, first = setup.batch_size // count, start * count
        return in_parts(data_batches(data, data_dir, inputs, batch_size=size, start_step=first, **options), count)

    if not dry_run:  # what is wrong with the folders is found before the network is built
        first = batches(0)
        if training.data is not None:  # and with what a user's own code makes of them
            next(first)
    held_out = eval_dir and open_held_out(training, job, data, data_dir, eval_dir, setup, sizes)
    if not eval_dir and (Path(model_dir) / EVAL).is_dir():
        _logger.warning(
            "%s: held-out cases were scored so far, and no longer are. Fix: to go on, give --eval_dir", model_dir
        )
    options = {"seed": seed, **setup.of_program()}
    with building("building the step"):
        if count == 1:
            program = step = network = Program(training_step(job.task, training.optimizer), inputs, **options)
        else:
            step = MicroBatches(job.task, training.optimizer, inputs, count, **options)
            program, network = step.program, step.gradients
    if dry_run:
        print(text(Planned(setup, job, training, sizes).explain(), colours=messages.colours()))
        print(f"\n{describe_slices(network, inputs)}")
        return

    checkpoints = Checkpoints(model_dir, program, training.checkpoint_every, training.checkpoints_kept)
    observers = [LossLog(Path(model_dir) / "losses.csv"), _progress(model_dir, training)]
    if held_out:
        held = {"program": program, "checkpoints": checkpoints, "model_dir": model_dir, "sizes": sizes, "stop": stop}
        observers.append(make_evaluator(held_out, training, job, setup, **held))
    checkpoints.restore()
    decided = {"setup.resolution": format_grid(sizes)}
    if isinstance(data, Records):
        decided["setup.spacing"] = format_spacing(data.sampling(data_dir).spacing)
    if setup.cluster:  # where a run computed is no part of what it was: it goes on anywhere
        decided["setup.cluster"] = ""
    if parted:
        decided["train.fold_digest"] = parted.digest
    # Only now: the configuration of a run must not be replaced by one that does not fit its checkpoints.
    config = model_dirs.save_config(model_dir, decided)
    if parted:
        parted.save(model_dir)
    observers.insert(1, _events(model_dir, training, setup, network, inputs, config))
    if traced:
        observers.append(StepTrace(Path(model_dir) / TRAIN, traced))
    loop.train(
        program=program,
        step=step,
        batches=batches,
        num_steps=training.num_steps,
        checkpoints=checkpoints,
        stop=stop,
        observers=observers,
    )


def _progress(model_dir, training) -> progress.Progress:
    folder, every = Path(model_dir), [training.checkpoint_every, training.eval_every or training.checkpoint_every]
    tables = [folder / "losses.csv", folder / EVAL / "scores.csv"]
    options = {"every": every, "num_steps": training.num_steps, "best_by": training.best}
    return progress.Progress(folder / progress.NAME, *tables, **options)


def _events(model_dir, training, setup, network, inputs, config) -> TrainingEvents:
    texts = {"layout": describe_run(network, inputs), "config": "\n".join(fenced(config))}
    rate, folder = training.optimizer.learning_rate, Path(model_dir) / TRAIN
    return TrainingEvents(folder, learning_rate=rate, batch_size=setup.batch_size, texts=texts)
