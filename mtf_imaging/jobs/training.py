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
from mtf_imaging.errors import Interrupted
from mtf_imaging.files.provenance.runs import training_provenance
from mtf_imaging.files.run_folder import CONFIG, EVAL
from mtf_imaging.jobs.choices.layout import choose_layout
from mtf_imaging.jobs.data.checks import check_resumed_data, warn_of_labels
from mtf_imaging.jobs.data.class_frequencies import labeled_masks, resolve_frequencies
from mtf_imaging.jobs.data.folds import FoldData, resolve_fold
from mtf_imaging.jobs.data.training_data import TrainingData, as_training_data, sample_sizes, with_patches
from mtf_imaging.jobs.held_out.cases import HeldOut, make_evaluator, open_held_out
from mtf_imaging.jobs.held_out.loss import Trained
from mtf_imaging.jobs.history import History
from mtf_imaging.jobs.processes.devices import check_agreement, join, joined
from mtf_imaging.jobs.processes.stop_signals import NAMES, StopSignals
from mtf_imaging.jobs.runs import folder as run_folder
from mtf_imaging.jobs.runs.observers import evaluation_interval, open_observers
from mtf_imaging.jobs.steps.batches import check_data, open_batches
from mtf_imaging.jobs.steps.building import build_steps, each_step, open_buckets, training_step
from mtf_imaging.jobs.steps.costs import WholeImage, explain_step
from mtf_imaging.kinds.all_kinds import check_settings
from mtf_imaging.kinds.networks import task_for
from mtf_imaging.planner.render.text import text, use_colors
from mtf_imaging.settings.setting import takes
from mtf_imaging.settings.step import Devices
from mtf_imaging.settings.training import TrainSettings
from mtf_imaging.settings.values import AUTO
from mtf_imaging.training import loop
from mtf_imaging.training.buckets import Buckets
from mtf_imaging.training.callbacks import Callbacks
from mtf_imaging.training.checkpoints.checkpoints import Checkpoints, last_checkpoint
from mtf_imaging.training.checkpoints.initial_weights import InitialWeights
from mtf_imaging.training.describe import describe_run, describe_slices
from mtf_imaging.training.frozen import describe_frozen
from mtf_imaging.training.observers.evaluator import Evaluator, Monitoring
from mtf_imaging.training.observers.observer import Observer
from mtf_imaging.training.observers.trace import parse_steps
from mtf_imaging.training.observers.tracking.services import check_trackers, parse_trackers
from mtf_imaging.training.step import BuiltStep, TrainingStep
from mtf_imaging.training.stopping import AgreedStop

_logger = logging.getLogger(__name__)


# Returns an observer of a training run, given its program, its step and its layout.
Watch = Callable[[Program, TrainingStep, Layout], Observer]


@takes(TrainSettings)
def train(own: TrainSettings) -> History:
    """Trains a network, or resumes the run in the folder exactly where it stopped.

    The function writes checkpoints, `losses.csv`, `progress.png` and TensorBoard events to the folder of the run. With
    held-out cases, it also writes their scores and the best checkpoint.

    If the program runs as several processes, every process makes the same call. Process 0 writes all files and shows
    the progress.

    Returns:
      The history of the losses and scores, also if `stop` or a callback has stopped the run.

    Raises:
      Interrupted: a signal has stopped the run, which has saved a checkpoint; the same call resumes it.
      ConfigError, DataError, LayoutError, CheckpointError: an argument or a folder is invalid.
      ClusterError: another process is lost.
      TrainingError: the loss is not finite.
      OutOfMemoryError: a device has too little memory for the step.
    """
    stopped = None
    try:
        run_training(own)
    except Interrupted as error:
        if error.reason is None or error.reason in NAMES.values():
            raise
        stopped = str(error)
    return History(own.task, own.model_dir, stopped)


@dataclasses.dataclass(frozen=True)
class _Run:
    """A run whose processes have joined, and whose folder this program has locked.

    Attributes:
      own: the settings.
      group: the processes.
      devices: the settings of the devices.
      data: the training data, and held-out cases of the fold if there is one.
      fold: the fold; None for all data.
      stop: the function that all processes ask before each step.
      callbacks: the functions to call after each step; None if there are none.
      initial: the weights to start from; None to resume from a checkpoint.
    """

    own: TrainSettings
    group: Group
    devices: Devices
    data: TrainingData
    fold: FoldData | None
    stop: AgreedStop
    callbacks: Callbacks | None
    initial: InitialWeights | None

    @property
    def progress(self) -> bool:
        return self.own.progress and self.group.is_first


@dataclasses.dataclass(frozen=True)
class _Plan:
    """What a run computes.

    Attributes:
      step: the training step.
      layout: the layout.
      whole: voxels of whole images, of which the step may compute patches.
      frequencies: the class frequencies from which a new network starts; None if they are unknown.
      monitor: the measure that selects the best checkpoint.
    """

    step: TrainingStep
    layout: Layout
    whole: tuple[int, ...]
    frequencies: list[float] | None
    monitor: str


def run_training(own: TrainSettings, watch: Watch | None = None) -> dict[str, float]:
    """Does the same as `train`, with an additional observer from `watch`, which is called last.

    Returns:
      The loss and the measures of the last step; an empty dict if no steps are left or `dry_run` is set.

    Raises:
      Interrupted: the run was stopped, also by `stop` or a callback.
    """
    if own.profile_steps is not None:
        parse_steps(own.profile_steps, own.num_steps)
    with contextlib.ExitStack() as stack:
        run = _open_run(own, stack)
        plan = _make_plan(run)
        stack.enter_context(joined(run.devices, plan.layout))
        buckets = open_buckets(run.data, plan.step, own.resolution)
        held_out = _open_data(run, plan, buckets)
        built = build_steps(plan.step, buckets, run.data, plan.layout, run.devices, run.progress)
        if built.network.frozen and run.group.is_first:
            _logger.info("%s", describe_frozen(built.network))
        if own.dry_run:
            return _print_costs(run, plan, built)
        checkpoints = Checkpoints(
            own.model_dir, built.program, own.checkpoint_every, own.checkpoints_kept, own.checkpoint_async
        )
        evaluator = _open_evaluator(run, plan, held_out, built, checkpoints)
        feed = open_batches(run.group, run.data, plan.step, buckets, built)
        if not checkpoints.restore() and run.initial:
            run.initial.apply(built.program)
        observers = _open_observers(run, plan, built, evaluator)
        if run.callbacks:
            run.callbacks.follow(plan.step.optimizer, built.program)
            observers.append(run.callbacks)
        if watch:
            observers.append(watch(built.program, plan.step, plan.layout))
        return loop.train(
            program=built.program,
            step=feed.compute,
            batches=feed.batches,
            num_steps=own.num_steps,
            checkpoints=checkpoints,
            stop=run.stop,
            observers=observers,
            progress=run.progress,
        )


def _open_run(own: TrainSettings, stack: contextlib.ExitStack) -> _Run:
    """Joins the processes, checks that they agree, and locks the folder of the run until the stack is closed."""
    trackers, stop = parse_trackers(own.trackers), own.stop or (lambda: None)
    if own.handle_signals:
        signals, own_stop = stack.enter_context(StopSignals()), stop
        stop = lambda: signals.reason() or own_stop()  # noqa: E731
    devices = own.devices or Devices()
    group = join(devices)
    callbacks = Callbacks(own.callbacks, Path(own.model_dir), group) if own.callbacks else None
    if callbacks:
        before = stop
        stop = lambda: callbacks.reason() or before()  # noqa: E731
    data = as_training_data(own.data)
    for settings in (data, own):
        check_settings(settings, data.kind)
    data = with_patches(data, own)
    check_agreement(group, own, data=data)
    agreed_stop = AgreedStop(stop, group)
    if not own.dry_run:  # a dry run writes nothing
        group.first(lambda: check_trackers(trackers))
        group.first(lambda: stack.enter_context(run_folder.held(own.model_dir)))
    initial = _initial_weights(group, own)
    fold = resolve_fold(data, own.model_dir)
    data = fold.data if fold else data
    group.first(lambda: check_resumed_data(data, own.model_dir))
    return _Run(own, group, devices, data, fold, agreed_stop, callbacks, initial)


def _make_plan(run: _Run) -> _Plan:
    """Describes the step for the data of a run, and chooses its layout."""
    own, data = run.own, run.data
    task: Any = task_for(own.task, data.description)  # a task may have the method `with_class_frequencies`
    counted = None if own.dry_run else own.class_frequencies  # they do not change the cost of a step
    frequencies = run.group.first(lambda: resolve_frequencies(counted, task, data, own.model_dir))
    whole = data.sizes(own.resolution)
    if frequencies is not None:
        task = task.with_class_frequencies(frequencies)
    step = training_step(own, task, sample_sizes(data, whole))
    if run.callbacks and run.callbacks.reducing:
        step = dataclasses.replace(step, optimizer=step.optimizer.with_factor())
    layout = choose_layout(step, run.devices, run.group, own.offload_dir) if own.layout == AUTO else own.layout
    monitor = own.monitor or data.images.measure(data.description)
    return _Plan(step, Layout.of(layout), whole, frequencies, monitor)


def _open_data(run: _Run, plan: _Plan, buckets: Buckets | None) -> HeldOut | None:
    """Checks the training data, unless this is a dry run, and opens the held-out cases."""
    if not run.own.dry_run:
        check_data(run.group, run.data, plan.step, buckets)
    held_out = open_held_out(run.data, plan.step, plan.monitor, run.progress, plan.whole)
    if not run.own.dry_run and run.group.num == 1:  # several processes read only the chunks of their slices
        warn_of_labels(run.data, run.own.model_dir)
    return held_out


def _print_costs(run: _Run, plan: _Plan, built: BuiltStep) -> dict[str, float]:
    """Prints the costs of a step and the per-processor shape of every tensor; returns no measures."""
    if run.initial:
        run.initial.check(built.program)
    image = WholeImage(plan.whole if run.data.patch else None)
    for each, program in each_step(plan.step, built) if run.group.is_first else []:
        print(text(explain_step(each, plan.layout, image=image), colors=use_colors()))
        print(f"\n{describe_slices(program.network, each.part_inputs)}")
    return {}


def _open_evaluator(
    run: _Run, plan: _Plan, held_out: HeldOut | None, built: BuiltStep, checkpoints: Checkpoints
) -> Evaluator | None:
    """Returns the observer that evaluates held-out cases; None if there are none."""
    own = run.own
    if held_out is None:
        if run.group.is_first and Path(own.model_dir, EVAL).is_dir():
            warning = "%s: held-out cases are no longer scored. Fix: give eval_dir to score them"
            _logger.warning(warning, own.model_dir, extra={"settings": ["eval_dir"]})
        return None
    trained = Trained(plan.step, built.program, plan.layout, run.devices.mesh_impl, run.progress)
    monitoring = Monitoring(plan.monitor, evaluation_interval(own), own.num_steps)
    evaluator = make_evaluator(held_out, trained, checkpoints, Path(own.model_dir), monitoring, run.stop.now)
    if run.callbacks:
        evaluator.add_listener(run.callbacks.scores)
    return evaluator


def _open_observers(run: _Run, plan: _Plan, built: BuiltStep, evaluator: Evaluator | None) -> list[Observer]:
    """Saves the configuration and the facts of a run, and returns its observers; in process 0, these write files.

    Call it after the checkpoint is restored: a configuration that does not match the run's checkpoints must not
    replace the old one.
    """
    configuration = run.group.first(lambda: _save_facts(run, plan, built.program))
    if not run.group.is_first:
        return [evaluator] if evaluator else []
    descriptions = (describe_run(program.network, each.part_inputs) for each, program in each_step(plan.step, built))
    texts = {CONFIG: configuration, "layout.md": "\n\n".join(descriptions)}
    masks = labeled_masks(run.data.description, plan.frequencies)
    return open_observers(run.own, plan.step, plan.layout, texts, masks, plan.monitor, evaluator)


def _save_facts(run: _Run, plan: _Plan, program: Program) -> str:
    """Writes the configuration, the facts about the data and the folds to the folder; returns the configuration."""
    own, data, layout = run.own, run.data, plan.layout
    facts = dataclasses.replace(
        data.images.facts(data.data_dir, plan.whole, data.description),
        fold_digest=run.fold.digest if run.fold else None,
        class_frequencies=plan.frequencies,
        patch=format_grid(data.patch) if data.patch else None,
    )
    configuration = own.save_configuration(facts, layout) if own.save_configuration else str(plan.step)
    cases, start = data.images.cases(data.data_dir), (int(program.step), layout.mesh_string, layout.rules_string)
    dataclasses.replace(facts, provenance=training_provenance(own.model_dir, cases, *start)).save(own.model_dir)
    if run.fold:
        run.fold.save(own.model_dir)
    return configuration


def _initial_weights(group: Group, own: TrainSettings) -> InitialWeights | None:
    """Returns the weights to start from, after checking that they exist; None if the run resumes from a checkpoint."""
    path, excluded = own.initial_weights, own.initial_weights_except
    if path is None or group.first(lambda: last_checkpoint(own.model_dir)) is not None:
        return None
    initial = InitialWeights(path, excluded)
    group.first(initial.check_exists)
    return initial
