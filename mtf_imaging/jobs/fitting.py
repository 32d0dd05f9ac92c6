"""Training on arrays, in one call."""

import dataclasses
import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import tensorflow as tf

from mtf_imaging.data.pairs import TARGET, ArrayPairs, DatasetPairs, Samples, ScoredPairs
from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.layout import Layout
from mtf_imaging.errors import ConfigError, DataError, Interrupted
from mtf_imaging.files.run_folder import EVAL
from mtf_imaging.jobs.data.training_data import TrainingData
from mtf_imaging.jobs.training import train
from mtf_imaging.networks import Network, load
from mtf_imaging.networks.task import NetworkTask, TrainableNetwork
from mtf_imaging.networks.task import task as network_task
from mtf_imaging.training.callbacks import Callback
from mtf_imaging.training.keras.layers import is_model
from mtf_imaging.training.losses import LABELS, VALUES, named_loss
from mtf_imaging.training.observers.step_table import read_rows
from mtf_imaging.training.prediction import NetworkBuilder, predictor
from mtf_imaging.training.task import Task

_AXES = ("x", "y", "z")
_LAYOUT = ("layout", "mesh_shape", "sequential", "offload_dir")


@dataclasses.dataclass(frozen=True)
class _Function:
    """A function of one named tensor, with what `networks.task` needs of a network.

    Attributes:
      function: maps Tensor[batch, x, y, z, channels], with one to three spatial dimensions, to its outputs.
      channels: the number of channels of an image.
      dtype: the dtype of images.
    """

    function: Callable[[mtf.Tensor], Any]
    channels: int
    dtype: str
    input_names = ("image",)

    def inputs(self, batch: int, **sizes: int) -> dict[str, tuple[str, tf.DType]]:
        dims = {"batch": batch, **sizes, "channels": self.channels}
        return {"image": (",".join(f"{name}:{size}" for name, size in dims.items()), tf.as_dtype(self.dtype))}

    def __call__(self, training: bool = False, **inputs: mtf.Tensor) -> Any:
        return self.function(*inputs.values())


class History:
    """A finished training.

    Attributes:
      task: the task, which `mi.jobs` takes as well.
      model_dir: the folder of the run.
      losses: {name: its values after each step}, the loss and the measures of the task.
      scores: {name: its values}, the scores of the held-out samples, and the "step" of each.
      stopped: why the training stopped before its last step; None if it did not.
    """

    def __init__(self, task: Task, model_dir: str | Path, stopped: str | None = None) -> None:
        self.task, self.model_dir, self.stopped = task, Path(model_dir), stopped
        self.losses = _columns(self.model_dir / "losses.csv")
        self.scores = _columns(self.model_dir / EVAL / "scores.csv")

    def predict(self, x: Samples, **options: Any) -> np.ndarray:
        """Returns the predictions for images; see `predict`."""
        return predict(self.task, x, model_dir=self.model_dir, **options)


def _columns(path: Path) -> dict[str, list[float]]:
    """Returns the columns of a table of steps that contain numbers."""
    columns: dict[str, list[float]] = {}
    for row in read_rows(path, 2**62):
        for name, text in row.items():
            if name != "cases":
                columns.setdefault(name, []).append(float(text))
    return columns


def fit(
    network: object,
    x: "Samples | tf.data.Dataset",
    y: Samples | None = None,
    loss: str | Callable[..., object] | None = None,
    *,
    validation: tuple[Samples, Samples] | None = None,
    callbacks: Sequence[Callback] = (),
    model_dir: str | Path | None = None,
    **settings: Any,
) -> History:
    """Trains a network on arrays, under any layout.

        history = mi.fit(network, x, y, steps=500, batch_size=2, mesh_shape="rows:2,cols:2", layout="x:rows,y:cols")
        probabilities = history.predict(x)

    It calls `mi.jobs.train`: the same call with a `model_dir` resumes a run, and more `steps` continue it.

    Args:
      network: a function of Tensor[batch, x, y, z, channels], with one to three spatial dimensions; a Keras model; a
        network of `mi.networks.load`; or a task with a loss of its own.
      x: images, Array[samples, spatial..., channels]: NumPy, memory-mapped, Zarr, or anything with slices, of which
        only the samples and slices of a step are read; or a `tf.data.Dataset` of pairs (image, target).
      y: targets: integers Array[samples, spatial...] are classes of voxels, integers Array[samples] are classes of
        images, and Array[samples, ..., values] are numbers like the outputs of the network.
      loss: "dice_ce", "cross_entropy", "binary_cross_entropy", "mse", "mae", or a function `loss(outputs, labels)` of
        tensors that returns a scalar Tensor, or a pair of it and a dict of measures. The default is dice_ce for classes
        of voxels, cross_entropy for classes of images, and mse for numbers.
      validation: a pair (x, y) of arrays that are not trained on. They are scored every `eval_every` steps: the mean
        Dice of the classes without 0, the accuracy of images, or the coefficient of determination (r2).
      callbacks: functions of the number of finished steps and a dict of values, such as "loss" and "held_out/dice"; a
        string that one returns stops the training. `mi.training.callbacks` has EarlyStopping.
      model_dir: folder of the run. Default: a temporary folder that is deleted with the result.
      **settings: `steps`; `layout`, `mesh_shape`, `sequential` and `offload_dir` as in `mi.Program`; and all settings
        of `mi.jobs.train`, such as batch_size, optimizer, seed, dtype, eval_every and progress.

    Returns:
      The history of the losses and scores, which also predicts.

    Raises:
      ConfigError, DataError, LayoutError: an argument is invalid, or arguments do not fit.
      TrainingError: the loss is not finite.
      OutOfMemoryError: a device has too little memory for the step.
    """
    pairs = _pairs(x, y)
    task, measure = _task(network, pairs, loss, settings.get("dtype", "float32"))
    folder = Path(model_dir or tempfile.mkdtemp(prefix="mtf_imaging_fit_"))
    scored = None if validation is None else ScoredPairs(ArrayPairs(*validation), measure)
    stopped = None
    if "steps" in settings:
        settings["num_steps"] = settings.pop("steps")
    try:
        train(
            task=task,
            data=TrainingData("arrays", data_set=pairs, eval_dir="validation" if scored else None, evaluation=scored),
            model_dir=folder,
            layout=_layout(settings),
            callbacks=callbacks,
            **{"monitor": measure, **settings},
        )
    except Interrupted as error:
        stopped = str(error)
    except BaseException:
        if model_dir is None:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    history = History(task, folder, stopped)
    if model_dir is None:
        weakref.finalize(history, shutil.rmtree, folder, ignore_errors=True)
    return history


def predict(
    network: object,
    x: Samples,
    *,
    model_dir: str | Path | None = None,
    loss: str | Callable[..., object] | None = None,
    **options: Any,
) -> np.ndarray:
    """Returns the predictions of a network for images.

    Args:
      network: the network, as in `fit`; without a `model_dir`, a network with weights: a Keras model, or a network of
        `mi.networks.load`.
      x: Array[samples, spatial..., channels].
      model_dir: the folder of a run with the weights.
      loss: the name of the loss, which determines the prediction: probabilities instead of outputs.
      **options: `layout`, `mesh_shape`, `sequential` and `offload_dir` as in `mi.Program`, and the options of
        `mi.training.prediction.predictor`.

    Returns:
      The predictions, Array[samples, ...].

    Raises:
      ConfigError: the network has no weights.
      CheckpointError: the run has no checkpoint, or belongs to another network.
    """
    layout, sizes = _layout(options), x.shape[1:-1]
    task = _NetworkOf(network, x.shape[-1], options.get("dtype", "float32")).task(loss)
    if model_dir is not None:
        of_image: Any = predictor(task=task, sizes=sizes, model_dir=model_dir, layout=layout, **options)
    elif isinstance(task, NetworkTask) and not _is_plain(network):
        builder = NetworkBuilder(task=task, layout=layout, **options)
        of_image = builder.as_network(builder.program(sizes))
    else:
        raise ConfigError(
            "predict: the network is a function, and has no weights. Fix: give model_dir, the folder in which fit "
            "trained it, or call the method predict of what fit returned.",
            ["model_dir"],
        )
    return np.stack([np.asarray(of_image(np.asarray(image))) for image in map(x.__getitem__, range(len(x)))])


class _NetworkOf(NamedTuple):
    """A network of any kind, and what its inputs need: the number of channels and the dtype."""

    network: object
    channels: int
    dtype: str

    def task(self, loss: str | Callable[..., object] | None, targets: str = LABELS, dims: str | None = None) -> Task:
        """Returns the task; `dims` names the dimensions of the targets."""
        if _is_task(self.network):
            return self.network
        network: TrainableNetwork
        if _is_plain(self.network):
            network = _Function(self.network, self.channels, self.dtype)
        else:
            network = self.network if isinstance(self.network, Network) else load(self.network)
        if loss is None:
            return network_task(network, _no_loss)
        named = named_loss(loss, targets)
        specs = None if dims is None else {TARGET: (dims, "int32" if targets == LABELS else "float32")}
        return network_task(network, named.compute, specs, named.predict)


def _no_loss(*_: object) -> None:
    raise ConfigError("the network was given without a loss. Fix: give loss.", ["loss"])


def _is_task(network: object) -> TypeGuard[Task]:
    methods = ("inputs", "loss", "predict")
    return not is_model(type(network)) and all(callable(getattr(network, name, None)) for name in methods)


def _is_plain(network: object) -> TypeGuard[Callable[..., Any]]:
    """Returns whether a network is a function of named tensors, without weights."""
    has_weights = isinstance(network, Network | str | Path) or is_model(type(network))
    return callable(network) and not has_weights and not hasattr(network, "get_concrete_function")


def _layout(settings: dict[str, Any]) -> Layout:
    """Takes the layout from settings."""
    return Layout.of(**{"layout": "", **{name: settings.pop(name) for name in _LAYOUT if name in settings}})


def _pairs(x: "Samples | tf.data.Dataset", y: Samples | None) -> ArrayPairs | DatasetPairs:
    if isinstance(x, tf.data.Dataset):
        return DatasetPairs(x)
    if y is None:
        raise DataError("there are no targets. Fix: give y, or a tf.data.Dataset of pairs (image, target).")
    return ArrayPairs(x, y)


def _task(
    network: object, pairs: ArrayPairs | DatasetPairs, loss: str | Callable[..., object] | None, dtype: str
) -> tuple[Task, str]:
    """Returns the task of a network with a loss, and the measure of held-out samples."""
    image, target, target_dtype = pairs.shapes()
    axes, is_integer = _AXES[: len(image) - 1], target_dtype.kind in "biu"
    space = ",".join(("batch", *axes))
    if is_integer and target == image[:-1]:
        targets, dims, default, measure = LABELS, space, "dice_ce", "dice"
    elif is_integer and target == ():
        targets, dims, default, measure = LABELS, "batch", "cross_entropy", "accuracy"
    elif target[:-1] == image[:-1]:
        targets, dims, default, measure = VALUES, f"{space},values:{target[-1]}", "mse", "r2"
    elif len(target) == 1:
        targets, dims, default, measure = VALUES, f"batch,values:{target[0]}", "mse", "r2"
    else:
        raise DataError(
            f"the targets have the shape {list(target)} and the dtype {target_dtype}, but images have "
            f"{list(image)}. Fix: give integers of the shape {list(image[:-1])} for classes of voxels, one integer for "
            "the class of an image, or numbers with a last axis like the outputs of the network."
        )
    if loss == "binary_cross_entropy":
        measure = "dice"
    return _NetworkOf(network, image[-1], dtype).task(loss or default, targets, dims), measure
