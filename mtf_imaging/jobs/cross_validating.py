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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.images.spacing_table import SpacingTable, read_spacing_table
from mtf_imaging.data.intensity import DEFAULT_WINDOW, Window
from mtf_imaging.data.records.manifest import Manifest, open_records
from mtf_imaging.data.records.splits import Fold, check_cases, make_splits, read_splits
from mtf_imaging.data.sampling.buckets import format_grids
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.evaluation.cleanup import AS_FOUND, Cleanup
from mtf_imaging.jobs.agreement import check_agreement
from mtf_imaging.jobs.as_text import as_text
from mtf_imaging.jobs.choosing import choose_layout
from mtf_imaging.jobs.class_frequencies import FROM_DATA, ClassFrequencies
from mtf_imaging.jobs.data import TrainingData, as_training_data
from mtf_imaging.jobs.devices import AUTO, Devices
from mtf_imaging.jobs.evaluating import evaluate
from mtf_imaging.jobs.fold_runs import FoldRuns
from mtf_imaging.jobs.folds import NUM_FOLDS
from mtf_imaging.jobs.pooling import fold_names, held_out_cases, pool_folds
from mtf_imaging.jobs.settings import check_count
from mtf_imaging.jobs.stop_signals import StopSignals
from mtf_imaging.jobs.training import train
from mtf_imaging.kinds.all_kinds import check_volumes
from mtf_imaging.kinds.facts import Facts
from mtf_imaging.kinds.networks import task_for
from mtf_imaging.kinds.settings import Resolution
from mtf_imaging.layout import ONE_PROCESSOR, Layout
from mtf_imaging.training.optimizers import Adam, Optimizer
from mtf_imaging.training.step import TrainingStep
from mtf_imaging.training.task import Task

STOPPED = "stopped while no network was training. Start cross_validate again to continue."


def cross_validate(
    *,
    task: Task,
    data: TrainingData | str | Path,
    input_dir: str | Path,
    output_dir: str | Path,
    folds: Sequence[int] | None = None,
    optimizer: Optimizer | None = None,
    num_steps: int = 1000,
    layout: Layout | str = ONE_PROCESSOR,
    devices: Devices | None = None,
    resolution: Resolution | None = None,
    batch_size: int = 1,
    micro_batches: int = 1,
    window: Window = DEFAULT_WINDOW,
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
    cleanup: Cleanup = AS_FOUND,
    flips: Sequence[str] = (),
    spacing_table: str | Path | SpacingTable | None = None,
    workers: int | None = None,
    stop: Callable[[], str | None] = lambda: None,
    handle_signals: bool = False,
    progress: bool = True,
    save_configuration: Callable[[int, Facts, Layout], str] | None = None,
) -> dict[str, Any]:
    """Trains and scores all folds of a data set, and pools the scores.

    For each fold, the output folder receives the folder of a run, `fold_0`, `fold_1`, ..., as `train` writes it for
    this fold, with the scores of the held-out cases at their original resolution in `fold_0/evaluation`. The last
    checkpoint is scored, because the best one was selected on the same cases. `metrics.json`, `metrics.csv` and
    `report.html` contain every case once, scored with the network that has not seen it; `folds.csv` has a row per fold.

    The same call continues an interrupted cross-validation. Finished folds are neither trained nor segmented again, and
    an interrupted fold resumes from its last checkpoint. The pooled results are computed from the stored segmentations
    if a fold was finished since the last time.

    If the program runs as several processes, every process makes the same call.

    Args:
      task: the network and its loss.
      data: the records, or a folder of records that `convert` wrote. `num_folds`, `splits_file` and `split_seed` of a
        `TrainingData` define the folds.
      input_dir: the folder of the labeled cases from which the records were made.
      output_dir: the folder to write to. It can contain one cross-validation.
      folds: the folds to train, from 0; None for all. The pooled results cover all finished folds in the folder.
      optimizer: the optimizer; None for Adam.
      num_steps: number of steps of each run.
      layout: the mesh of processors and the dimensions to split over it, or "auto"; it may change between calls.
      devices: the devices that compute; None for the devices of this process, or of all processes of the program.
      resolution: voxels along x, y and z; None for the resolution of the records.
      batch_size: images in a step, summed over all processors.
      micro_batches: number of equal pieces of a batch, computed one after the other.
      window: intensity window (low, high) in HU, the same as in the data set.
      dtype: the dtype of images and activations.
      seed: the seed of weights, data order and random operations.
      initial_weights, initial_weights_except: the weights that every fold starts from, the same as in `train`.
      class_frequencies: the same as in `train`; "data" are the labels of the training cases of each fold.
      checkpoint_every, checkpoints_kept, checkpoint_async, eval_every, monitor: the same as in `train`.
      cleanup: the postprocessing of the segmentations.
      flips: axes to flip at test time.
      spacing_table: a CSV file with voxel sizes for files whose headers lack them.
      workers: number of processes that score the pooled cases, of up to 0.5 GiB each; None for one per core, or fewer
        if memory is short.
      stop: a function that is called before each step. If it returns a string, the run saves a checkpoint and stops for
        that reason.
      handle_signals: whether SIGTERM, SIGUSR1 and Ctrl-C stop the job with a checkpoint; only in the main thread.
      progress: whether to show progress bars and print tables.
      save_configuration: a function that process 0 calls once per fold, with the fold, facts about the data and the
        layout. It writes the configuration to the folder of the run and returns its text for TensorBoard.

    Returns:
      The contents of the pooled `metrics.json`.

    Raises:
      Interrupted: the job was asked to stop; the same call continues it.
      ConfigError: an argument is invalid, or the folder contains a cross-validation with other settings, folds or
        cases.
      DataError: a case, a record or the file of folds is invalid.
      LayoutError, CheckpointError, ClusterError, TrainingError, OutOfMemoryError: the same as in `train`.
    """
    data, devices, known = as_training_data(data), devices or Devices(), read_spacing_table(spacing_table)
    optimizer = optimizer or Adam()
    runs = FoldRuns(output_dir)
    settings = {"task": task, "data": data.data_set, "optimizer": optimizer, "num_steps": num_steps, "dtype": dtype}
    settings |= {"batch_size": batch_size, "micro_batches": micro_batches, "seed": seed}
    if initial_weights is not None:
        settings |= {"initial_weights": str(initial_weights), "initial_weights_except": initial_weights_except}
    if class_frequencies != FROM_DATA:
        settings |= {"class_frequencies": class_frequencies}
    settings |= {"window": tuple(window), "cleanup": cleanup, "flips": tuple(flips)}
    with contextlib.ExitStack() as stack:
        if handle_signals:
            stack.enter_context(StopSignals(STOPPED))
        _check_arguments(data, devices)
        for name, folder in {"data_dir": Path(data.data_dir), "input_dir": input_dir}.items():
            check_volumes(folder, "hold out {kind} with {part} of the folder, and call train and evaluate.", name)
        for name, value in {"num_steps": num_steps, "batch_size": batch_size, "micro_batches": micro_batches}.items():
            check_count(name, value)
        group = devices.join()
        check_agreement(group, folds=folds, output_dir=str(output_dir), resolution=resolution, **settings)
        say = functools.partial(print, flush=True) if progress and group.is_first else lambda text: None

        manifest = open_records(data.data_dir)
        description = data.description or LITS
        assert isinstance(description, Description)  # the data are records
        sizes, splits = data.sizes(resolution), resolve_splits(data, manifest, runs)
        selected = _selected(folds, len(splits))
        texts = {name: as_text(value) for name, value in settings.items()}
        texts["resolution"] = format_grids(manifest.sampling.grids if data.has_several_grids else [sizes])
        runs.check(texts, splits, manifest)
        cases = {
            fold: held_out_cases(input_dir, runs, fold, splits[fold], manifest, known, description) for fold in selected
        }
        group.first(lambda: runs.begin(texts, splits, manifest))
        finished = group.first(lambda: runs.finished(len(splits)))
        todo = [fold for fold in selected if fold not in finished]
        if skipped := [fold for fold in selected if fold in finished]:
            say(f"Already finished: {fold_names(skipped)}.")
        if layout == AUTO and todo:
            step = TrainingStep(task_for(task, description), optimizer, sizes, batch_size, micro_batches, dtype, seed)
            layout = choose_layout(step, devices, group)

        common: dict[str, Any] = {"task": task, "devices": devices, "dtype": dtype, "progress": progress}
        for fold in todo:
            say(
                f"\nFold {fold} (0 to {len(splits) - 1}): train on {_count(splits[fold].train)}, hold out "
                f"{_count(splits[fold].val)}."
            )
            train(
                **common,
                data=dataclasses.replace(
                    data, fold=fold, num_folds=None, splits_file=runs.splits_file, fold_digest=None
                ),
                model_dir=runs.run(fold),
                optimizer=optimizer,
                num_steps=num_steps,
                layout=layout,
                resolution=resolution,
                batch_size=batch_size,
                micro_batches=micro_batches,
                seed=seed,
                initial_weights=initial_weights,
                initial_weights_except=initial_weights_except,
                class_frequencies=class_frequencies,
                checkpoint_every=checkpoint_every,
                checkpoints_kept=checkpoints_kept,
                checkpoint_async=checkpoint_async,
                eval_every=eval_every,
                monitor=monitor,
                stop=stop,
                handle_signals=handle_signals,
                save_configuration=functools.partial(save_configuration, fold) if save_configuration else None,
            )
            gc.collect()  # programs are parts of reference cycles
            evaluate(
                **common,
                model_dir=runs.run(fold),
                input_dir=input_dir,
                output_dir=runs.evaluation(fold),
                layout=Layout.of(layout),
                window=window,
                cleanup=cleanup,
                flips=flips,
                spacing_table=known,
                cases=cases[fold],
            )
            gc.collect()
        return group.first(lambda: pool_folds(runs, splits, input_dir, manifest, known, workers, progress, description))


def resolve_splits(data: TrainingData, manifest: Manifest, runs: FoldRuns) -> list[Fold]:
    """Returns the folds: those of the arguments, or else those of the folder, or else new ones.

    Args:
      data: the training data.
      manifest: the manifest of its records.
      runs: the output folder.

    Raises:
      ConfigError: num_folds contradicts the file of folds.
      DataError: a fold does not have exactly the cases of the records, or a case is held out by several folds.
    """
    path = data.splits_file if data.splits_file is not None and Path(data.splits_file).exists() else None
    if path is not None:
        splits = read_splits(path)
        if data.num_folds not in (None, len(splits)):
            raise ConfigError(
                f"{path}: has {len(splits)} folds, but num_folds is {data.num_folds}. Fix: remove num_folds, or give "
                "another splits_file.",
                ["num_folds", "splits_file"],
            )
    elif data.num_folds is None and (before := runs.read_splits()) is not None:
        return before  # `FoldRuns.begin` compares the cases
    else:
        splits = make_splits(manifest.cases, data.num_folds or NUM_FOLDS, data.split_seed)
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


def _check_arguments(data: TrainingData, devices: Devices) -> None:
    if data.kind.has_splits:
        raise ConfigError(
            f"cross_validate divides records into folds, but the data set is {type(data.data_set).__name__}. Fix: hold "
            f"out {data.kind.name} with a split of the folder, and call train and evaluate.",
            ["data"],
        )
    if not data.is_records:
        raise ConfigError(
            f"cross_validate divides records into folds, but the data set is of class {type(data.data_set).__name__}. "
            "Fix: train each fold with a data set that holds out cases itself.",
            ["data"],
        )
    if data.fold is not None or data.eval_dir:
        name, value = ("fold", data.fold) if data.fold is not None else ("eval_dir", data.eval_dir)
        raise ConfigError(
            f"{name} {value}: cross_validate holds out every fold in turn. Fix: remove {name}; folds selects some "
            "of the folds.",
            [name, "folds"],
        )
    if devices.cluster:
        raise ConfigError(
            f"cluster '{devices.cluster}': cross_validate connects to no servers, because TensorFlow connects only "
            "once per process. Fix: start several processes instead, or train and evaluate each fold by itself.",
            ["cluster"],
        )


def _selected(folds: Sequence[int] | None, number: int) -> list[int]:
    if folds is None:
        return [*range(number)]
    if not folds or len({*folds}) < len(folds) or not {*folds} <= {*range(number)}:
        raise ConfigError(
            f"folds {[*folds]}: there are {number} folds. Fix: give each of them at most once, as numbers from 0 to "
            f"{number - 1}.",
            ["folds", "num_folds"],
        )
    return sorted(folds)


def _count(keys: Sequence[str]) -> str:
    return f"{len(keys)} case{'s' * (len(keys) > 1)}"
