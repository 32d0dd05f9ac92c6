"""Cross-validation: trains a network per fold, scores each case with the network that has not seen it, and pools them.

All folds run in this process, one after the other. The program of a fold is freed before the next one is built, so the
devices and the host need memory for one fold (resident memory stays the same over folds). In separate processes, each
fold would import TensorFlow twice more, the task would have to be picklable, and several processes of one program could
not run the job together.
"""

import contextlib
import dataclasses
import functools
import gc
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.images.spacing_table import read_spacing_table
from mtf_imaging.data.records.manifest import Manifest, open_records
from mtf_imaging.data.records.splits import Fold, check_cases
from mtf_imaging.data.sampling.buckets import format_grids
from mtf_imaging.engine.layout import Layout
from mtf_imaging.errors import ConfigError, DataError, Interrupted
from mtf_imaging.evaluation.cleanup.cleanup import AS_FOUND, as_cleanup
from mtf_imaging.files.provenance.digests import digest
from mtf_imaging.jobs.choices.layout import choose_layout
from mtf_imaging.jobs.cross_validation.fold_runs import FoldRuns
from mtf_imaging.jobs.cross_validation.pooling import Folds, fold_names, pool_folds
from mtf_imaging.jobs.data.folds import has_splits_file, make_folds, read_folds
from mtf_imaging.jobs.data.training_data import TrainingData, as_training_data, sample_sizes, with_patches
from mtf_imaging.jobs.evaluating import evaluate
from mtf_imaging.jobs.processes.devices import check_agreement, join
from mtf_imaging.jobs.processes.stop_signals import StopSignals
from mtf_imaging.jobs.steps.building import training_step
from mtf_imaging.jobs.training import train
from mtf_imaging.kinds.all_kinds import check_volumes
from mtf_imaging.kinds.networks import task_for
from mtf_imaging.kinds.volumes.trained import window_of_run
from mtf_imaging.plain_text import counted
from mtf_imaging.settings.as_text import as_plain, identity
from mtf_imaging.settings.inference import EvaluateSettings, FlipSettings, WindowSettings
from mtf_imaging.settings.patches import PatchSettings, SlidingWindowSettings
from mtf_imaging.settings.setting import takes, values_of
from mtf_imaging.settings.step import BatchSettings, Devices, NetworkSettings
from mtf_imaging.settings.training import CrossValidateSettings, LearningSettings, TrainSettings
from mtf_imaging.settings.values import AUTO
from mtf_imaging.training.checkpoints.weights_folder import find_weights
from mtf_imaging.training.optimizers import Adam

# Other settings change only how the networks are computed, observed and stored.
_SCORES_DEPEND_ON = (
    NetworkSettings,
    LearningSettings,
    BatchSettings,
    PatchSettings,
    WindowSettings,
    SlidingWindowSettings,
    FlipSettings,
)
STOPPED = "stopped while no network was training. Start cross_validate again to continue."


@takes(CrossValidateSettings)
def cross_validate(own: CrossValidateSettings) -> dict[str, Any]:
    """Trains and scores all folds of a data set, and pools the scores.

    For each fold, the output folder receives the folder of a run, `fold_0`, `fold_1`, ..., as `train` writes it for
    this fold, with the scores of the held-out cases at their original resolution in `fold_0/evaluation`. The last
    checkpoint is scored, because the best one was selected on the same cases. `metrics.json`, `metrics.csv` and
    `report.html` contain every case once, scored with the network that has not seen it; `folds.csv` has a row per fold.
    Unless `cleanup` is given, rules that remove components are chosen on all of these cases and stored in
    `cleanup.json`, where `predict` and `evaluate` with `ensemble` find them.

    The same call continues an interrupted cross-validation. Finished folds are neither trained nor segmented again, and
    an interrupted fold resumes from its last checkpoint. The pooled results are computed from the stored segmentations
    if a fold was finished since the last call.

    If the program runs as several processes, every process makes the same call.

    Returns:
      The contents of the pooled `metrics.json`.

    Raises:
      Interrupted: the job was asked to stop; the same call continues it.
      ConfigError: an argument is invalid, or the folder contains a cross-validation with other settings, folds or
        cases.
      DataError: a case, a record or the file of folds is invalid.
      LayoutError, CheckpointError, ClusterError, TrainingError, OutOfMemoryError: the same as in `train`.
    """
    data = with_patches(as_training_data(own.data), own)
    devices, known = own.devices or Devices(), read_spacing_table(own.spacing_table)
    runs = FoldRuns(own.output_dir)
    with contextlib.ExitStack() as stack:
        if own.handle_signals:
            stack.enter_context(StopSignals(STOPPED))
        _check_arguments(data)
        for name, folder in {"data_dir": Path(data.data_dir), "input_dir": own.input_dir}.items():
            check_volumes(folder, "hold out {kind} with {part} of the folder, and call train and evaluate.", name)
        group = join(devices)
        check_agreement(group, own, data=data)
        say = functools.partial(print, flush=True) if own.progress and group.is_first else lambda text: None

        manifest = open_records(data.data_dir)
        description = data.description or LITS
        assert isinstance(description, Description)  # records have no other split
        splits = resolve_splits(data, manifest, runs)
        sizes, folds = data.sizes(own.resolution), Folds(runs, splits, own.input_dir, manifest, known, description)
        selected = _selected(own.folds, len(splits))
        grids = manifest.sampling.grids if data.has_several_grids else [sizes]
        if (window := window_of_run(own.patch, own)) is not None:  # with which the folds are scored after training
            for grid in grids:
                window.check(grid)
        shared = _settings_of_all_folds(own) | {"resolution": format_grids(grids)}
        texts = {name: identity(value, name) for name, value in shared.items()}
        runs.check(texts, splits, manifest)
        cases = {fold: folds.held_out_cases(fold) for fold in selected}
        group.first(lambda: runs.begin(texts, splits, manifest))
        finished = group.first(lambda: runs.finished(len(splits)))
        todo = [fold for fold in selected if fold not in finished]
        if skipped := [fold for fold in selected if fold in finished]:
            say(f"Already finished: {fold_names(skipped)}.")
        layout = own.layout
        if layout == AUTO and todo:
            patch_or_whole = sample_sizes(data, sizes)
            step = training_step(own, task_for(own.task, description), patch_or_whole)
            layout = choose_layout(step, devices, group, own.offload_dir)

        for fold in todo:
            train_on, hold_out = (counted(len(keys), "case") for keys in (splits[fold].train, splits[fold].val))
            say(f"\nFold {fold} (0 to {len(splits) - 1}): train on {train_on}, hold out {hold_out}.")
            in_fold: dict[str, Any] = {"model_dir": runs.run(fold), "layout": layout}
            if own.tracking_name is not None:
                in_fold["tracking_name"] = f"{own.tracking_name}/fold_{fold}"
            of_fold = dataclasses.replace(
                data, fold=fold, num_folds=None, splits_file=runs.splits_file, fold_digest=None
            )
            save = functools.partial(own.save_configuration, fold) if own.save_configuration else None
            history = train(**values_of(TrainSettings, own, **in_fold, data=of_fold, save_configuration=save))
            if history.stopped:
                raise Interrupted(history.stopped)
            gc.collect()  # programs are parts of reference cycles
            in_fold |= {"layout": Layout.of(layout), "resolution": None, "output_dir": runs.evaluation(fold)}
            evaluate(**values_of(EvaluateSettings, own, **in_fold, spacing_table=known, cases=cases[fold]))
            gc.collect()
        cleanup = as_cleanup(own.cleanup)
        applied = shared | {"cleanup": cleanup.resolve(description).names}
        rules = {name: as_plain(value, name) for name, value in applied.items()}
        chooses_rules = cleanup == AS_FOUND  # otherwise, rules were given or turned off
        return group.first(lambda: pool_folds(folds, own.workers, own.progress, rules, chooses_rules))


def _settings_of_all_folds(own: CrossValidateSettings) -> dict[str, Any]:
    """Returns the settings that determine the scores, which all folds share; files count by their content."""
    shared = {name: value for cls in _SCORES_DEPEND_ON for name, value in values_of(cls, own).items()}
    shared |= {"data": as_training_data(own.data).data_set, "optimizer": own.optimizer or Adam()}
    shared["cleanup"] = as_cleanup(own.cleanup)
    if own.initial_weights is not None:  # the index of a checkpoint has a checksum of every variable
        shared["initial_weights"] = digest(Path(f"{find_weights(own.initial_weights)}.index"))
    return {name: value for name, value in shared.items() if value is not None}


def resolve_splits(data: TrainingData, manifest: Manifest, runs: FoldRuns) -> list[Fold]:
    """Returns the folds from the arguments, else from the folder, else new ones.

    Args:
      data: the training data.
      manifest: the manifest of its records.
      runs: the output folder.

    Raises:
      ConfigError: num_folds contradicts the file of folds.
      DataError: a fold does not have exactly the cases of the records, or a case is held out by several folds.
    """
    path = data.splits_file if has_splits_file(data) else None
    if path is not None:
        splits = read_folds(data)
    elif data.num_folds is None and (before := runs.read_splits()) is not None:
        return before  # `FoldRuns.begin` compares the cases
    else:
        splits = make_folds(data, manifest.cases)
    for fold in splits:
        check_cases(fold, manifest.cases, path or "folds", data.data_dir)
    repeated = [key for key, count in Counter(key for fold in splits for key in fold.val).items() if count > 1]
    if repeated:
        raise DataError(
            f"{path}: several folds hold out case {', '.join(repeated)}, but a cross-validation scores each case once. "
            "Fix: hold out each case in one fold.",
            ["splits_file"],
        )
    return splits


def _check_arguments(data: TrainingData) -> None:
    if not data.is_records:
        raise ConfigError(
            f"cross_validate divides records into folds, but the data set is of class {type(data.data_set).__name__}. "
            "Fix: hold out images with the data set, and call train and evaluate.",
            ["data"],
        )
    if data.fold is not None or data.eval_dir:
        name, value = ("fold", data.fold) if data.fold is not None else ("eval_dir", data.eval_dir)
        raise ConfigError(
            f"{name} {value}: cross_validate holds out every fold in turn. Fix: remove {name}; folds selects some "
            "of the folds.",
            [name, "folds"],
        )


def _selected(folds: Sequence[int] | None, number: int) -> list[int]:
    if folds is None:
        return [*range(number)]
    if len({*folds}) < len(folds) or not {*folds} <= {*range(number)}:
        raise ConfigError(
            f"folds {[*folds]}: there are {number} folds. Fix: give each of them at most once, as numbers from 0 to "
            f"{number - 1}.",
            ["folds", "num_folds"],
        )
    return sorted(folds)
