"""The settings of `train` and `cross_validate`."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtf_imaging.layout import ONE_PROCESSOR, Layout
from mtf_imaging.settings.inference import CleanupSetting, FlipSettings, WindowSettings
from mtf_imaging.settings.setting import Settings, changed, documented, setting, settings
from mtf_imaging.settings.step import (
    BatchSettings,
    DevicesSetting,
    NetworkSettings,
    ProgressSettings,
    SpacingTableSettings,
    WorkerSettings,
)

if TYPE_CHECKING:
    from mtf_imaging.data.records.splits import Subset
    from mtf_imaging.jobs.data import TrainingData
    from mtf_imaging.jobs.run import Facts
    from mtf_imaging.training.data_set import DataSet
    from mtf_imaging.training.evaluation import Evaluation
    from mtf_imaging.training.optimizers import Optimizer

FROM_DATA = "data"
NUM_FOLDS = 5
ClassFrequencies = str | Sequence[float] | None


@settings
class RunSettings(Settings):
    """How a network is trained."""

    num_steps: int = setting(
        "number of steps of the whole run, including the steps of earlier calls",
        default=1000,
        unit="steps",
        least=1,
        flag=True,
    )
    optimizer: "Optimizer | None" = setting(
        "the optimizer, a `training.optimizers.Optimizer`. Default: Adam", default=None, example="@NAME()"
    )
    seed: int = setting(
        "seed of the initial weights, the data order, dropout and other random operations",
        default=0,
        least=0,
        flag=True,
    )
    initial_weights: str | Path | None = setting(
        "the weights to start from if the run has no checkpoint: a folder that import_weights wrote, the folder of "
        "another run, or the path of a checkpoint. Variables that both networks have are set, by name; "
        "`initial_weights_except` lists scopes to leave out",
        default=None,
        flag=True,
    )
    initial_weights_except: str | Sequence[str] = setting(
        "the scopes, or the scope, whose variables `initial_weights` does not set, such as deeplab/classes for a "
        "network with other classes",
        default=(),
        example='"deeplab/classes"',
    )
    class_frequencies: ClassFrequencies = setting(
        "the frequencies of the classes that a new network predicts before its first step: data for those of the "
        "labels of the training data, a fraction for each output of the network, or None to start from biases of 0. "
        "The run keeps the fractions. Networks without the method with_class_biases start from their own biases",
        default=FROM_DATA,
        recorded=True,
    )
    checkpoint_every: int = setting(
        "number of steps between checkpoints", default=100, unit="steps", least=1, example="100"
    )
    checkpoints_kept: int = setting("number of most recent checkpoints to keep", default=3, least=1, example="3")
    checkpoint_async: bool = setting(
        "whether to write checkpoints in the background, while the next steps run. This takes host memory for a copy "
        "of all variables",
        default=False,
    )
    eval_every: int | None = setting(
        "number of steps between evaluations of held-out cases. Default: `checkpoint_every`",
        default=None,
        unit="steps",
        least=1,
    )
    monitor: str | None = setting(
        "the measure of held-out cases that selects the best checkpoint, which is kept in addition to the recent ones; "
        "higher is better. Default: the Dice of the lesion in LiTS, the mean Dice of all masks in other records, the "
        "mean IoU of photos, and the average precision of the masks, or else of the boxes, of objects",
        default=None,
        example='"lesion"',
    )


@settings
class FoldsSettings(Settings):
    """The folds of records."""

    num_folds: int | None = setting(
        f"number of folds of the records. Default: as in `splits_file`, or {NUM_FOLDS}",
        default=None,
        least=2,
        flag=True,
    )
    splits_file: str | Path | None = setting(
        "file of the folds in the format of nnU-Net's splits_final.json; it is written if it does not exist",
        default=None,
        flag=True,
        shared=False,
    )
    split_seed: int = setting("seed of the assignment of cases to new folds", default=0)


@settings
class FoldSettings(FoldsSettings):
    """The fold that a run holds out."""

    fold: int | None = setting(
        "hold out this fold of the records in `data_dir`, counted from 0, and score it during training. Replaces "
        "`eval_dir`",
        default=None,
        least=0,
        flag=True,
    )
    fold_digest: str | None = setting(
        "digest of the fold that the run began with. Default: the one that the run has stored, if it has one",
        default=None,
        recorded=True,
    )


@documented
@dataclasses.dataclass(frozen=True)
class DataSettings(FoldSettings):
    """Training images, and optional held-out images that are scored during training."""

    data_dir: "str | Path | Subset" = setting(
        "folder of records that convert wrote, or of the images that `data_set` reads", flag=True, shared=False
    )
    # `Any` as well as the protocol, because a data set does not have to derive from any class.
    data_set: "DataSet | Any" = setting(
        "the data set: Records, Photos, Objects or a custom `training.data_set.DataSet`. Default: records",
        default_factory=lambda: _records(),
    )
    eval_dir: "str | Path | Subset | None" = setting(
        "folder of held-out records, photos or objects to score during training; `eval_every` is the number of steps "
        "between scores. For photos and objects, it can be `data_dir`: Photos.split and Photos.held_out_split, or "
        "Objects.split and Objects.held_out_split, name the images",
        default=None,
        flag=True,
        shared=False,
    )
    evaluation: "Evaluation | Any" = setting(
        "the evaluation of held-out cases, a `training.evaluation.Evaluation`. Default: the Dice of records, the "
        "intersection over union of photos, and the average precision of objects",
        default=None,
        example="@NAME()",
    )


def _records() -> Any:
    from mtf_imaging.data.records.data_set import Records  # imports NumPy

    return Records()


@settings
class TrainSettings(NetworkSettings, RunSettings, BatchSettings, DevicesSetting, ProgressSettings):
    """The settings of `train`."""

    data: "TrainingData | str | Path" = setting(
        "the training data, or a folder of records that `convert` wrote", example="@NAME()"
    )
    model_dir: str | Path = setting(
        "folder of the run, for checkpoints, the configuration and TensorBoard events", flag=True
    )
    layout: Layout | str = setting(
        "the mesh of processors and the dimensions to split over it. auto selects the layout with the shortest "
        "predicted step, with one processor for each process or device",
        default=ONE_PROCESSOR,
    )
    profile_steps: str | None = setting(
        "steps to trace for TensorBoard's profiler (pip install xprof); 10:13 traces steps 10, 11 and 12",
        default=None,
        flag=True,
    )
    dry_run: bool = setting(
        "whether to build the step and print its costs and the per-processor shape of every tensor, instead of "
        "training",
        default=False,
        flag=True,
    )
    stop: Callable[[], str | None] = setting(
        "a function that is called before each step. If it returns a string, the run saves a checkpoint and stops for "
        "that reason",
        default=lambda: None,
        shared=False,
    )
    handle_signals: bool = setting(
        "whether SIGTERM, SIGUSR1 and Ctrl-C stop the run in the same way; only in the main thread",
        default=False,
        shared=False,
    )
    save_configuration: "Callable[[Facts, Layout], str] | None" = setting(
        "a function that process 0 calls once, before the first step, with facts about the data and the layout. It "
        "writes the configuration to the folder of the run and returns its text for TensorBoard",
        default=None,
        shared=False,
    )


@settings
class CrossValidateSettings(
    NetworkSettings,
    RunSettings,
    BatchSettings,
    DevicesSetting,
    WindowSettings,
    CleanupSetting,
    FlipSettings,
    SpacingTableSettings,
    WorkerSettings,
    ProgressSettings,
):
    """The settings of `cross_validate`."""

    data: "TrainingData | str | Path" = setting(
        "the records, or a folder of records that `convert` wrote. The settings `num_folds`, `splits_file` and "
        "`split_seed` of a `TrainingData` define the folds"
    )
    input_dir: str | Path = setting(
        "folder of the labeled cases from which the records were made", flag=True, shared=False
    )
    output_dir: str | Path = setting(
        "folder for the folds and the pooled results. It can contain one cross-validation", flag=True
    )
    folds: Sequence[int] | None = setting(
        "folds to train, counted from 0, for instance 0,2. Default: all. The pooled results cover all finished folds "
        "in the folder",
        default=None,
        unit="folds",
        flag=True,
    )
    layout: Layout | str = changed(TrainSettings, "layout")
    stop: Callable[[], str | None] = changed(TrainSettings, "stop")
    handle_signals: bool = changed(TrainSettings, "handle_signals")
    save_configuration: "Callable[[int, Facts, Layout], str] | None" = setting(
        "a function that process 0 calls once per fold, with the fold, facts about the data and the layout. It writes "
        "the configuration to the folder of the run and returns its text for TensorBoard",
        default=None,
        shared=False,
    )
