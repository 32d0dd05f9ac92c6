"""The settings of `train` and `cross_validate`."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtf_imaging.engine.layout import ONE_PROCESSOR, Layout
from mtf_imaging.settings.inference import CleanupSetting, CleanupSettings, FlipSettings, WindowSettings
from mtf_imaging.settings.patches import PatchSettings, SlidingWindowSettings
from mtf_imaging.settings.setting import Settings, changed, documented, setting, settings
from mtf_imaging.settings.step import (
    BatchSettings,
    DevicesSetting,
    LayoutSettings,
    NetworkSettings,
    ProgressSettings,
    SpacingTableSettings,
    WorkerSettings,
)

if TYPE_CHECKING:
    from mtf_imaging.data.records.splits import Subset
    from mtf_imaging.training.callbacks import Callback
    from mtf_imaging.training.data_set import DataSet
    from mtf_imaging.training.evaluation import Evaluation
    from mtf_imaging.training.optimizers import Optimizer

FROM_DATA = "data"
NUM_FOLDS = 5
ClassFrequencies = str | Sequence[float] | None


@settings
class LearningSettings(Settings):
    """What determines the weights of a trained network, besides the network and its data.

    Attributes:
      num_steps: number of steps of the whole run, including the steps of earlier calls.
      optimizer: the optimizer, a `training.optimizers.Optimizer`. Default: Adam.
      seed: seed of the initial weights, the data order, dropout and other random operations.
      initial_weights: weights to start from if the run has no checkpoint: a folder that import_weights wrote, the
        folder of another run, or the path of a checkpoint. Variables that both networks have are set, by name;
        `initial_weights_except` lists scopes to leave out.
      initial_weights_except: scopes, or the scope, whose variables `initial_weights` does not set, such as
        deeplab/classes for a network with other classes. Patterns as in `frozen` are allowed.
      frozen: weights that are not trained, as scopes or names of variables, separated by commas, such as
        resnet/stem*,resnet/stage0. The wildcards * and ? are allowed. Batch norms in these scopes keep their moving
        statistics. Default: all weights are trained.
      average_decay: decay of exponential moving averages of the weights, such as 0.9998. Held-out scores, evaluate,
        predict and export then use the averages. Default: no averages.
      class_frequencies: frequencies of the classes that a new network predicts before its first step: data for the
        frequencies of the training labels, a fraction for each output of the network, or None to start from biases of
        0. The run keeps the fractions. Networks without the method with_class_biases start from their own biases.
    """

    num_steps: int = setting(default=1000, unit="steps", least=1, flag=True)
    optimizer: "Optimizer | None" = setting(default=None, example="@NAME()")
    seed: int = setting(default=0, least=0, flag=True)
    initial_weights: str | Path | None = setting(default=None, flag=True)
    initial_weights_except: str | Sequence[str] = setting(
        default=(), needs="initial_weights", example='"deeplab/classes"'
    )
    frozen: str | Sequence[str] = setting(default=(), flag=True)
    average_decay: float | None = setting(default=None, flag=True)
    class_frequencies: ClassFrequencies = setting(
        default=FROM_DATA, choices=(FROM_DATA,), example='"data"', recorded=True
    )


@settings
class RunSettings(LearningSettings):
    """How a network is trained.

    Attributes:
      checkpoint_every: number of steps between checkpoints.
      checkpoints_kept: number of most recent checkpoints to keep.
      checkpoint_async: whether to write checkpoints in the background, while the next steps run. This takes host memory
        for a copy of all variables.
      eval_every: number of steps between evaluations of held-out cases. Default: `checkpoint_every`.
      monitor: the measure of held-out cases that selects the best checkpoint, which is kept in addition to the recent
        ones; higher is better. Default: the lesion Dice for LiTS, the mean Dice of all masks for other records, the
        mean IoU for photos, and the average precision of masks, or of boxes without masks, for objects.
      trackers: experiment trackers that receive losses, scores and settings, separated by commas: mlflow, wandb. Their
        own environment variables name the server. Default: none, and nothing is sent anywhere.
      tracking_project: the MLflow experiment, or the Weights & Biases project.
      tracking_name: the name of the run in `trackers`. Default: the name of its folder.
      tracking_every: interval, in steps, at which `trackers` receive values. TensorBoard events contain every step.
    """

    checkpoint_every: int = setting(default=100, unit="steps", least=1, example="100")
    checkpoints_kept: int = setting(default=3, least=1, example="3")
    checkpoint_async: bool = setting(default=False, example="True")
    eval_every: int | None = setting(default=None, unit="steps", least=1, example="100")
    monitor: str | None = setting(default=None, example='"lesion"')
    trackers: str | Sequence[str] = setting(default=(), flag=True, shared=False)
    tracking_project: str = setting(default="mtf-imaging", flag=True, shared=False)
    tracking_name: str | None = setting(default=None, flag=True, shared=False)
    tracking_every: int = setting(default=10, unit="steps", least=1, example="1", shared=False)


@settings
class FoldsSettings(Settings):
    """The folds of records.

    Attributes:
      num_folds: number of folds of the records. Default: as in `splits_file`, or 5.
      splits_file: file of the folds in the format of nnU-Net's splits_final.json; it is written if it does not exist.
      split_seed: seed of the assignment of cases to new folds.
    """

    num_folds: int | None = setting(default=None, least=2, flag=True)
    splits_file: str | Path | None = setting(default=None, flag=True, shared=False)
    split_seed: int = setting(default=0, least=0)


@settings
class FoldSettings(FoldsSettings):
    """The fold that a run holds out.

    Attributes:
      fold: hold out this fold of the records in `data_dir`, counted from 0, and score it during training. Replaces
        `eval_dir`.
      fold_digest: digest of the fold with which the run began. Default: the digest that the run has stored, if there is
          one.
    """

    fold: int | None = setting(default=None, least=0, flag=True)
    fold_digest: str | None = setting(default=None, recorded=True)


@documented
@dataclasses.dataclass(frozen=True)
class DataSettings(FoldSettings):
    """Training images, and optional held-out images that are scored during training.

    Attributes:
      data_dir: folder of records that convert wrote, or of the images that `data_set` reads.
      data_set: the data set: Records, Photos, Objects or a custom `training.data_set.DataSet`. Default: records.
      eval_dir: folder of held-out records, photos or objects to score during training; `eval_every` is the number of
        steps between scores. For photos and objects, it can be `data_dir`: Photos.split and Photos.held_out_split, or
        Objects.split and Objects.held_out_split, name the images.
      evaluation: the evaluation of held-out cases, a `training.evaluation.Evaluation`. Default: the Dice of records,
        the intersection over union of photos, and the average precision of objects.
    """

    data_dir: "str | Path | Subset" = setting(flag=True, shared=False)
    # `Any` as well as the protocol, because a data set does not have to derive from any class.
    data_set: "DataSet | Any" = setting(default_factory=lambda: _records())
    eval_dir: "str | Path | Subset | None" = setting(default=None, flag=True, shared=False)
    evaluation: "Evaluation | Any" = setting(default=None, example="@NAME()")


def _records() -> Any:
    from mtf_imaging.data.records.data_set import Records  # imports NumPy

    return Records()


@settings
class TrainSettings(NetworkSettings, RunSettings, BatchSettings, PatchSettings, DevicesSetting, ProgressSettings):
    """The settings of `train`.

    Attributes:
      data: the training data, a `TrainingData`; or a folder of records that `convert` wrote; or a pair of arrays, the
        inputs `image` and `labels` of the task, with one sample after another.
      model_dir: folder of the run, for checkpoints, the configuration and TensorBoard events.
      layout: the mesh of processors and the dimensions to split over it. auto selects the layout with the shortest
        predicted step, with one processor for each process or device, or turns if no such layout fits.
      profile_steps: steps to trace for TensorBoard's profiler (pip install xprof); 10:13 traces steps 10, 11 and 12.
      dry_run: whether to build the step and print its costs and the per-processor shape of every tensor, instead of
        training.
      stop: function that is called before each step. If it returns a string, the run saves a checkpoint and stops for
        that reason.
      callbacks: functions of the number of finished steps and a dict of values, which are called after each step; a
        string that one returns stops the run, as with `stop`. See `training.callbacks`.
      handle_signals: whether SIGTERM, SIGUSR1 and Ctrl-C stop the run in the same way; only in the main thread.
      save_configuration: function that process 0 calls once, before the first step, with facts about the data and the
        layout. It writes the configuration to the folder of the run and returns its text for TensorBoard.
    """

    data: DataSettings | str | Path | tuple[Any, Any] = setting(example="@NAME()")
    model_dir: str | Path = setting(flag=True)
    layout: Layout | str = setting(default=ONE_PROCESSOR)
    offload_dir: str | None = changed(LayoutSettings, "offload_dir", shared=False)
    profile_steps: str | None = setting(default=None, flag=True)
    dry_run: bool = setting(default=False, flag=True)
    stop: Callable[[], str | None] | None = setting(default=None, shared=False)
    callbacks: "Sequence[Callback]" = setting(default=(), shared=False)
    handle_signals: bool = setting(default=False, shared=False)
    save_configuration: Callable[[Any, Layout], str] | None = setting(default=None, shared=False)


@settings
class CrossValidateSettings(
    NetworkSettings,
    RunSettings,
    BatchSettings,
    PatchSettings,
    DevicesSetting,
    WindowSettings,
    SlidingWindowSettings,
    CleanupSetting,
    FlipSettings,
    SpacingTableSettings,
    WorkerSettings,
    ProgressSettings,
):
    """The settings of `cross_validate`.

    Attributes:
      data: the records, or a folder of records that `convert` wrote. The settings `num_folds`, `splits_file` and
        `split_seed` of a `TrainingData` define the folds.
      input_dir: folder of the labeled cases from which the records were made.
      output_dir: folder for the folds and the pooled results. It can contain one cross-validation.
      folds: folds to train, counted from 0, for instance 0,2. Default: all. The pooled results cover all finished folds
        in the folder.
      cleanup: rules for the segmentations of volumes, which set the threshold of a probability or remove components,
        such as lesion=threshold:0.2,lesion=min_volume:0.1 (mL); or lits, one liver and no lesions outside it;
        or none. Default: rules are chosen on the held-out cases and stored in `output_dir`.
      save_configuration: function that process 0 calls once per fold, with the fold, facts about the data and the
        layout. It writes the configuration to the folder of the run and returns its text for TensorBoard.
    """

    data: DataSettings | str | Path = setting()
    input_dir: str | Path = setting(flag=True, shared=False)
    output_dir: str | Path = setting(flag=True)
    folds: Sequence[int] | None = setting(default=None, unit="folds", flag=True)
    cleanup: CleanupSettings | str | None = changed(CleanupSetting, "cleanup")
    layout: Layout | str = changed(TrainSettings, "layout")
    offload_dir: str | None = changed(LayoutSettings, "offload_dir", shared=False)
    stop: Callable[[], str | None] | None = changed(TrainSettings, "stop")
    handle_signals: bool = changed(TrainSettings, "handle_signals")
    save_configuration: Callable[[int, Any, Layout], str] | None = setting(default=None, shared=False)
