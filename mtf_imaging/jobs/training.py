"""Training of a network: combines data, network, program and training loop."""

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mtf_imaging.errors import ConfigError
from mtf_imaging.evaluation.report import progress as curves
from mtf_imaging.files.run_folder import EVAL, TRAIN
from mtf_imaging.jobs import folds, run
from mtf_imaging.jobs.agreement import check_agreement
from mtf_imaging.jobs.batches import check_data, open_batches
from mtf_imaging.jobs.buckets import build_steps, each_step, open_buckets
from mtf_imaging.jobs.choosing import choose_layout
from mtf_imaging.jobs.class_frequencies import (
    FROM_DATA,
    ClassFrequencies,
    check_class_frequencies,
    labeled_masks,
    resolve_frequencies,
    with_frequencies,
)
from mtf_imaging.jobs.data import TrainingData, as_training_data
from mtf_imaging.jobs.devices import AUTO, Devices
from mtf_imaging.jobs.explaining import explain_step
from mtf_imaging.jobs.held_out import make_evaluator, open_held_out
from mtf_imaging.jobs.settings import check_count
from mtf_imaging.jobs.stop_signals import StopSignals
from mtf_imaging.kinds.facts import Facts
from mtf_imaging.kinds.networks import task_for
from mtf_imaging.kinds.settings import DTYPES, Resolution, check_choice
from mtf_imaging.layout import ONE_PROCESSOR, Layout
from mtf_imaging.meshes.group import Group
from mtf_imaging.planner.render.text import text, use_colors
from mtf_imaging.training import loop
from mtf_imaging.training.checkpoints.checkpoints import Checkpoints, last_checkpoint
from mtf_imaging.training.checkpoints.initial_weights import InitialWeights
from mtf_imaging.training.describe import describe_run, describe_slices, fenced
from mtf_imaging.training.observers.early_warnings import EarlyWarnings
from mtf_imaging.training.observers.events import TrainingEvents
from mtf_imaging.training.observers.loss_log import LossLog
from mtf_imaging.training.observers.observer import Observer
from mtf_imaging.training.observers.trace import StepTrace, parse_steps
from mtf_imaging.training.optimizers import Adam, Optimizer
from mtf_imaging.training.step import TrainingStep
from mtf_imaging.training.stopping import AgreedStop
from mtf_imaging.training.task import Task

_logger = logging.getLogger(__name__)


def train(
    *,
    task: Task,
    data: TrainingData | str | Path,
    model_dir: str | Path,
    optimizer: Optimizer | None = None,
    num_steps: int = 1000,
    layout: Layout | str = ONE_PROCESSOR,
    devices: Devices | None = None,
    resolution: Resolution | None = None,
    batch_size: int = 1,
    micro_batches: int = 1,
    dtype: str = "float32",
    seed: int = 0,
    initial_weights: str | Path | None = None,
    initial_weights_except: str | Sequence[str] = (),
    class_frequencies: ClassFrequencies = FROM_DATA,
    checkpoint_every: int = 100,
    checkpoints_kept: int = 3,
    checkpoint_async: bool = False,
    eval_every: int | None = None,
    monitor: str | None = None,
    profile_steps: str | None = None,
    dry_run: bool = False,
    stop: Callable[[], str | None] = lambda: None,
    handle_signals: bool = False,
    progress: bool = True,
    save_configuration: Callable[[Facts, Layout], str] | None = None,
) -> dict[str, float]:
    """Trains a network, or resumes the run in the folder exactly where it stopped.

    The function writes checkpoints, `losses.csv`, `progress.png` and TensorBoard events to the folder of the run. With
    held-out cases, it also writes their scores and the best checkpoint.

    If the program runs as several processes, every process makes the same call. Process 0 writes all files and shows
    the progress.

    Args:
      task: the network and its loss.
      data: the training data, or a folder of records that `convert` wrote.
      model_dir: the folder of the run.
      optimizer: the optimizer; None for Adam.
      num_steps: total number of steps of the run, including the steps of earlier calls.
      layout: the mesh of processors and the dimensions to split over it. "auto" selects the layout with the shortest
        predicted step, with one processor for each process or device.
      devices: the devices that compute; None for the devices of this process, or of all processes of the program.
      resolution: voxels along x, y and z, or pixels along the height and width of the crops of photos; None for the
        resolution of the data.
      batch_size: images in a step, summed over all processors.
      micro_batches: number of equal pieces of a batch. The pieces are computed one after the other, so a step needs the
        memory of one piece.
      dtype: the dtype of images and activations: "float32", "bfloat16" or "float64".
      seed: the seed of weights, data order and random operations.
      initial_weights: the weights to start from if the run has no checkpoint: a folder that `import_weights` wrote, the
        folder of another run, or the path of a checkpoint. Variables that both networks have are set, by name.
      initial_weights_except: the scopes, or the scope, whose variables are not set, such as "deeplab/classes" for a
        network with other classes.
      class_frequencies: the frequencies of the classes that a new network predicts before its first step: "data" for
        those of the labels of the training data, a fraction for each output of the network, or None to start from
        biases of 0. Networks without the method `with_class_biases` start from their own biases.
      checkpoint_every: number of steps between checkpoints.
      checkpoints_kept: number of most recent checkpoints to keep.
      checkpoint_async: whether to write checkpoints in the background, while the next steps run. This takes host memory
        for a copy of all variables.
      eval_every: number of steps between evaluations of held-out cases; None for `checkpoint_every`.
      monitor: the measure of held-out cases that selects the best checkpoint; higher is better. None for the Dice of
        the lesion in LiTS, the mean Dice of all masks in other records, the mean IoU of photos, and the average
        precision of objects.
      profile_steps: steps to trace for TensorBoard's profiler, such as "10:13" for steps 10, 11 and 12.
      dry_run: whether to print the cost of a step and the per-processor shape of every tensor instead of training.
      stop: a function that is called before each step. If it returns a string, the run saves a checkpoint and stops for
        that reason.
      handle_signals: whether SIGTERM, SIGUSR1 and Ctrl-C stop the run in the same way; only in the main thread.
      progress: whether to show progress bars.
      save_configuration: a function that process 0 calls once, before the first step, with facts about the data and the
        layout. It writes the configuration to the folder of the run and returns its text for TensorBoard.

    Returns:
      The loss and the measures of the last step; an empty dict if no steps are left or `dry_run` is set.

    Raises:
      Interrupted: the run was asked to stop and has saved a checkpoint; the same call resumes it.
      ConfigError, DataError, LayoutError, CheckpointError: an argument or a folder is invalid.
      ClusterError: another process or a server is lost.
      TrainingError: the loss is not finite.
      OutOfMemoryError: a device has too little memory for the step.
    """
    for name, value in {"num_steps": num_steps, "batch_size": batch_size, "micro_batches": micro_batches}.items():
        check_count(name, value)
    eval_every = checkpoint_every if eval_every is None else eval_every
    check_count("eval_every", eval_every)
    check_choice("dtype", dtype, DTYPES)
    check_class_frequencies(class_frequencies)
    devices = devices or Devices()
    traced = None if profile_steps is None else parse_steps(profile_steps, num_steps)
    arguments: dict[str, Any] = {
        "optimizer": optimizer,
        "num_steps": num_steps,
        "devices": devices,
        "resolution": resolution,
    }
    arguments |= {"batch_size": batch_size, "micro_batches": micro_batches, "dtype": dtype, "seed": seed}
    arguments |= {"checkpoint_every": checkpoint_every, "checkpoint_async": checkpoint_async, "eval_every": eval_every}
    arguments |= {"initial_weights": str(initial_weights), "initial_weights_except": initial_weights_except}
    arguments |= {
        "class_frequencies": class_frequencies,
        "monitor": monitor,
        "dry_run": dry_run,
        "model_dir": str(model_dir),
    }
    with contextlib.ExitStack() as stack:
        if handle_signals:
            signals, own_stop = stack.enter_context(StopSignals()), stop
            stop = lambda: signals.reason() or own_stop()  # noqa: E731
        group = devices.join()
        check_agreement(group, task, **arguments)
        progress = progress and group.is_first
        stop = AgreedStop(stop, group)
        if not dry_run:  # a dry run writes nothing, so it needs no lock
            group.first(lambda: _lock(stack, model_dir))

        initial = _initial_weights(group, model_dir, initial_weights, initial_weights_except)
        data = as_training_data(data)
        fold = folds.resolve_fold(data, model_dir)
        data = fold.data if fold else data
        task = task_for(task, data.description)
        counted = None if dry_run else class_frequencies  # they do not change the cost of a step
        frequencies = group.first(lambda: resolve_frequencies(counted, task, data, model_dir))
        task = with_frequencies(task, frequencies)
        monitor = monitor or data.images.measure(data.description)
        if layout == AUTO:
            step = TrainingStep(
                task, optimizer or Adam(), data.sizes(resolution), batch_size, micro_batches, dtype, seed
            )
            layout = choose_layout(step, devices, group)
        layout = Layout.of(layout)
        stack.enter_context(devices.joined(layout))
        sizes = data.sizes(resolution)
        step = TrainingStep(task, optimizer or Adam(), sizes, batch_size, micro_batches, dtype, seed)
        buckets = open_buckets(data, step, resolution)
        if not dry_run:
            check_data(group, data, step, buckets)
        held_out = open_held_out(data, step, monitor, progress)
        built = build_steps(step, buckets, data, layout, devices, progress)
        if dry_run:
            if initial:
                initial.check(built.program)
            for each, program in each_step(step, built) if group.is_first else []:
                print(text(explain_step(each, layout), colors=use_colors()))
                print(f"\n{describe_slices(program.network, each.part_inputs)}")
            return {}

        program, folder = built.program, Path(model_dir)
        checkpoints = Checkpoints(model_dir, program, checkpoint_every, checkpoints_kept, checkpoint_async)
        observers: list[Observer] = []  # in process 0, they write files
        if group.is_first:
            tables = {"every": [checkpoint_every, eval_every], "num_steps": num_steps, "best_by": monitor}
            names = folder / curves.NAME, folder / "losses.csv", folder / EVAL / "scores.csv"
            observers += [LossLog(folder / "losses.csv"), curves.Progress(*names, **tables)]
        if held_out:
            options: dict[str, Any] = {
                "layout": layout,
                "mesh_impl": devices.mesh_impl,
                "model_dir": model_dir,
                "monitor": monitor,
            }
            options |= {"every": eval_every, "num_steps": num_steps, "stop": stop.now, "progress": progress}
            observers.append(make_evaluator(held_out, step, program, checkpoints, **options))
        elif group.is_first and (folder / EVAL).is_dir():
            warning = "%s: held-out cases are no longer scored. Fix: give eval_dir to score them"
            _logger.warning(warning, model_dir, extra={"settings": ["eval_dir"]})
        feed = open_batches(group, data, step, buckets, built)
        if not checkpoints.restore() and initial:
            initial.apply(program)

        def save_facts() -> str:
            own: dict[str, Any] = {"fold_digest": fold.digest if fold else None, "class_frequencies": frequencies}
            facts = dataclasses.replace(data.images.facts(data.data_dir, sizes, data.description), **own)
            configuration = save_configuration(facts, layout) if save_configuration else str(step)
            facts.save(model_dir)
            if fold:
                fold.save(model_dir)
            return configuration

        # Write these files only after the checkpoint is restored: a configuration that does not match the run's
        # checkpoints must not replace the old one.
        configuration = group.first(save_facts)
        if group.is_first:
            texts = {
                "layout": "\n\n".join(
                    describe_run(program.network, each.part_inputs) for each, program in each_step(step, built)
                ),
                "config": "\n".join(fenced(configuration)),
            }
            rate = step.optimizer.learning_rate
            masks = labeled_masks(data.description, frequencies)
            observers.append(EarlyWarnings(folder / "losses.csv", masks, num_steps, rate))
            observers.insert(1, TrainingEvents(folder / TRAIN, learning_rate=rate, batch_size=batch_size, texts=texts))
            if traced:
                observers.append(StepTrace(folder / TRAIN, traced))
        return loop.train(
            program=program,
            step=feed.compute,
            batches=feed.batches,
            num_steps=num_steps,
            checkpoints=checkpoints,
            stop=stop,
            observers=observers,
            progress=progress,
        )


def _lock(stack: contextlib.ExitStack, model_dir: str | Path) -> None:
    """Locks the folder of a run until the stack is closed."""
    stack.enter_context(run.held(model_dir))


def _initial_weights(
    group: Group, model_dir: str | Path, path: str | Path | None, excluded: str | Sequence[str]
) -> InitialWeights | None:
    """Returns the weights to start from, after checking that they exist; None if the run resumes from a checkpoint."""
    if path is None and excluded:
        raise ConfigError(
            f"initial_weights_except = {excluded!r} has no effect without initial_weights. Fix: give both, or "
            "leave out initial_weights_except.",
            ["initial_weights"],
        )
    if path is None or group.first(lambda: last_checkpoint(model_dir)) is not None:
        return None
    initial = InitialWeights(path, (excluded,) if isinstance(excluded, str) else tuple(excluded))
    group.first(initial.check_exists)
    return initial
