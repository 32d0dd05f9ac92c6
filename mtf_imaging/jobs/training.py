"""Training of a network: combines data, network, program and training loop."""

import contextlib
import dataclasses
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mtf_imaging.data.sampling.grid import format_grid
from mtf_imaging.engine.layout import Layout
from mtf_imaging.engine.meshes.group import Group
from mtf_imaging.engine.program.program import Program
from mtf_imaging.errors import ConfigError
from mtf_imaging.evaluation.report import progress as curves
from mtf_imaging.files.provenance.runs import training_provenance
from mtf_imaging.files.run_folder import CONFIG, EVAL, TRAIN
from mtf_imaging.jobs.batches import check_data, open_batches
from mtf_imaging.jobs.choices.layout import choose_layout
from mtf_imaging.jobs.data import folds
from mtf_imaging.jobs.data.checks import check_resumed_data, warn_of_labels
from mtf_imaging.jobs.data.class_frequencies import (
    check_class_frequencies,
    labeled_masks,
    resolve_frequencies,
    with_frequencies,
)
from mtf_imaging.jobs.data.grids import build_steps, each_step, open_buckets
from mtf_imaging.jobs.data.training_data import as_training_data, sample_sizes, with_patches
from mtf_imaging.jobs.explaining import explain_step
from mtf_imaging.jobs.held_out import make_evaluator, open_held_out
from mtf_imaging.jobs.processes.agreement import check_agreement
from mtf_imaging.jobs.processes.devices import join, joined
from mtf_imaging.jobs.processes.stop_signals import StopSignals
from mtf_imaging.jobs.runs import folder as run
from mtf_imaging.jobs.runs.tracking import open_trackers
from mtf_imaging.kinds.networks import task_for
from mtf_imaging.planner.render.text import text, use_colors
from mtf_imaging.settings.setting import takes
from mtf_imaging.settings.step import Devices
from mtf_imaging.settings.training import CrossValidateSettings, TrainSettings
from mtf_imaging.settings.values import AUTO
from mtf_imaging.training import loop
from mtf_imaging.training.checkpoints.checkpoints import Checkpoints, last_checkpoint
from mtf_imaging.training.checkpoints.initial_weights import InitialWeights
from mtf_imaging.training.describe import describe_run, describe_slices, fenced
from mtf_imaging.training.frozen import describe_frozen
from mtf_imaging.training.observers.early_warnings import EarlyWarnings
from mtf_imaging.training.observers.events import TrainingEvents
from mtf_imaging.training.observers.loss_log import LossLog
from mtf_imaging.training.observers.observer import Observer
from mtf_imaging.training.observers.trace import StepTrace, parse_steps
from mtf_imaging.training.observers.tracking.services import check_trackers, parse_trackers
from mtf_imaging.training.optimizers import Adam
from mtf_imaging.training.step import TrainingStep
from mtf_imaging.training.stopping import AgreedStop
from mtf_imaging.training.task import Task

_logger = logging.getLogger(__name__)


# Returns an observer of a training run, given its program, its step and its layout.
Watch = Callable[[Program, TrainingStep, Layout], Observer]


@takes(TrainSettings)
def train(own: TrainSettings) -> dict[str, float]:
    """Trains a network, or resumes the run in the folder exactly where it stopped.

    The function writes checkpoints, `losses.csv`, `progress.png` and TensorBoard events to the folder of the run. With
    held-out cases, it also writes their scores and the best checkpoint.

    If the program runs as several processes, every process makes the same call. Process 0 writes all files and shows
    the progress.

    Returns:
      The loss and the measures of the last step; an empty dict if no steps are left or `dry_run` is set.

    Raises:
      Interrupted: the run was asked to stop and has saved a checkpoint; the same call resumes it.
      ConfigError, DataError, LayoutError, CheckpointError: an argument or a folder is invalid.
      ClusterError: another process is lost.
      TrainingError: the loss is not finite.
      OutOfMemoryError: a device has too little memory for the step.
    """
    return run_training(own)


def run_training(own: TrainSettings, watch: Watch | None = None) -> dict[str, float]:
    """Does the same as `train`, with an additional observer from `watch`, which is called last."""
    check_class_frequencies(own.class_frequencies)
    model_dir, stop = Path(own.model_dir), own.stop or (lambda: None)
    devices = own.devices or Devices()
    traced = None if own.profile_steps is None else parse_steps(own.profile_steps, own.num_steps)
    trackers = parse_trackers(own.trackers)
    with contextlib.ExitStack() as stack:
        if own.handle_signals:
            signals, own_stop = stack.enter_context(StopSignals()), stop
            stop = lambda: signals.reason() or own_stop()  # noqa: E731
        group = join(devices)
        data = with_patches(as_training_data(own.data), own)
        check_agreement(group, own, data=data)
        if not own.dry_run:
            group.first(lambda: check_trackers(trackers))
        progress = own.progress and group.is_first
        stop = AgreedStop(stop, group)
        if not own.dry_run:  # a dry run writes nothing, so it needs no lock
            group.first(lambda: _lock(stack, model_dir))

        initial = _initial_weights(group, own)
        fold = folds.resolve_fold(data, model_dir)
        data = fold.data if fold else data
        group.first(lambda: check_resumed_data(data, model_dir))
        task = task_for(own.task, data.description)
        counted = None if own.dry_run else own.class_frequencies  # they do not change the cost of a step
        frequencies = group.first(lambda: resolve_frequencies(counted, task, data, model_dir))
        task = with_frequencies(task, frequencies)
        monitor = own.monitor or data.images.measure(data.description)
        whole = data.sizes(own.resolution)
        step = training_step(own, task, sample_sizes(data, whole))
        layout = Layout.of(choose_layout(step, devices, group) if own.layout == AUTO else own.layout)
        stack.enter_context(joined(devices, layout))
        buckets = open_buckets(data, step, own.resolution)
        if not own.dry_run:
            check_data(group, data, step, buckets)
        held_out = open_held_out(data, step, monitor, progress, whole)
        # Several processes read only the chunks of their slices.
        if not own.dry_run and group.num == 1:
            warn_of_labels(data, model_dir)
        built = build_steps(step, buckets, data, layout, devices, progress)
        if built.network.frozen and group.is_first:
            _logger.info("%s", describe_frozen(built.network))
        if own.dry_run:
            if initial:
                initial.check(built.program)
            for each, program in each_step(step, built) if group.is_first else []:
                image = whole if data.patch else None
                print(text(explain_step(each, layout, image=image), colors=use_colors()))
                print(f"\n{describe_slices(program.network, each.part_inputs)}")
            return {}

        program, every = built.program, own.eval_every or own.checkpoint_every
        checkpoints = Checkpoints(model_dir, program, own.checkpoint_every, own.checkpoints_kept, own.checkpoint_async)
        observers: list[Observer] = []  # in process 0, observers write files
        if group.is_first:
            tables = {"every": [own.checkpoint_every, every], "num_steps": own.num_steps, "best_by": monitor}
            names = model_dir / curves.NAME, model_dir / "losses.csv", model_dir / EVAL / "scores.csv"
            observers += [LossLog(model_dir / "losses.csv"), curves.Progress(*names, **tables)]
        if held_out:
            options: dict[str, Any] = {"layout": layout, "mesh_impl": devices.mesh_impl, "model_dir": model_dir}
            options |= {"monitor": monitor, "every": every, "num_steps": own.num_steps, "stop": stop.now}
            evaluator = make_evaluator(held_out, step, program, checkpoints, **options, progress=progress)
            observers.append(evaluator)
        elif group.is_first and (model_dir / EVAL).is_dir():
            warning = "%s: held-out cases are no longer scored. Fix: give eval_dir to score them"
            _logger.warning(warning, model_dir, extra={"settings": ["eval_dir"]})
        feed = open_batches(group, data, step, buckets, built)
        if not checkpoints.restore() and initial:
            initial.apply(program)

        def save_facts() -> str:
            known: dict[str, Any] = {"fold_digest": fold.digest if fold else None, "class_frequencies": frequencies}
            known["patch"] = data.patch and format_grid(data.patch)
            facts = dataclasses.replace(data.images.facts(data.data_dir, whole, data.description), **known)
            configuration = own.save_configuration(facts, layout) if own.save_configuration else str(step)
            start = int(program.step), layout.mesh_string, layout.rules_string
            origin = training_provenance(model_dir, data.images.cases(data.data_dir), *start)
            dataclasses.replace(facts, provenance=origin).save(model_dir)
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
            observers.append(EarlyWarnings(model_dir / "losses.csv", masks, own.num_steps, rate))
            events = TrainingEvents(model_dir / TRAIN, learning_rate=rate, batch_size=own.batch_size, texts=texts)
            sent = {CONFIG: configuration, "layout.md": texts["layout"]}
            senders = open_trackers(own, layout, sent, rate)
            if held_out:
                for sender in senders:
                    evaluator.add_listener(sender.scores)
            observers[1:1] = [events, *senders]
            if traced:
                observers.append(StepTrace(model_dir / TRAIN, traced))
        if watch:
            observers.append(watch(program, step, layout))
        return loop.train(
            program=program,
            step=feed.compute,
            batches=feed.batches,
            num_steps=own.num_steps,
            checkpoints=checkpoints,
            stop=stop,
            observers=observers,
            progress=progress,
        )


def _lock(stack: contextlib.ExitStack, model_dir: str | Path) -> None:
    """Locks a run folder until the stack is closed."""
    stack.enter_context(run.held(model_dir))


def training_step(own: TrainSettings | CrossValidateSettings, task: Task, sizes: tuple[int, ...]) -> TrainingStep:
    """Returns the training step for images of the given sizes."""
    return TrainingStep(
        task,
        own.optimizer or Adam(),
        sizes,
        own.batch_size,
        own.micro_batches,
        own.dtype,
        own.seed,
        own.frozen,
        own.average_decay,
    )


def _initial_weights(group: Group, own: TrainSettings) -> InitialWeights | None:
    """Returns the weights to start from, after checking that they exist; None if the run resumes from a checkpoint."""
    path, excluded = own.initial_weights, own.initial_weights_except
    if path is None and excluded:
        raise ConfigError(
            f"initial_weights_except = {excluded!r} has no effect without initial_weights. Fix: give both, or "
            "leave out initial_weights_except.",
            ["initial_weights"],
        )
    if path is None or group.first(lambda: last_checkpoint(own.model_dir)) is not None:
        return None
    initial = InitialWeights(path, excluded)
    group.first(initial.check_exists)
    return initial
