"""Networks of any kind as tasks for arrays, and their predictions and scores."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import tensorflow as tf

from mtf_imaging.data.pairs import ArrayPairs, Arrays, Samples, ScoredPairs, Spec
from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.layout import Layout
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.inference.network import Prediction, image_sizes, of_each
from mtf_imaging.inference.several import image_of, named_inputs, named_outputs
from mtf_imaging.networks import Network, load
from mtf_imaging.networks.task import NetworkTask
from mtf_imaging.networks.task import task as network_task
from mtf_imaging.training.keras.layers import is_model
from mtf_imaging.training.losses import LABELS, VALUES, NamedLoss, named_loss, sum_of_losses
from mtf_imaging.training.prediction import NetworkBuilder, predictor
from mtf_imaging.training.task import Task

AXES = ("x", "y", "z")
_LAYOUT = ("layout", "mesh_shape", "sequential", "offload_dir")
Loss = str | Callable[..., object] | None
Losses = Loss | Mapping[str, Loss] | Sequence[Loss]


@dataclasses.dataclass(frozen=True)
class _Function:
    """A function of named tensors, with what `networks.task` needs of a network.

    Attributes:
      function: maps Tensor[batch, x, y, z, channels], with one to three spatial dimensions, to its outputs. Several
        inputs are keyword arguments.
      shapes: {name of an input: the shape of a sample}.
      dtype: the dtype of images.
    """

    function: Callable[..., Any]
    shapes: Mapping[str, tuple[int, ...]]
    dtype: str

    @property
    def input_names(self) -> tuple[str, ...]:
        return tuple(self.shapes)

    def inputs(self, batch: int, **sizes: int) -> dict[str, tuple[str, tf.DType]]:
        image, specs = max(self.shapes.values(), key=len), {}
        for key, (*space, channels) in self.shapes.items():
            own = sizes if space == [*image[:-1]] else dict(zip(AXES, space))
            dims = {"batch": batch, **own, "channels": channels}
            specs[key] = ",".join(f"{name}:{size}" for name, size in dims.items()), tf.as_dtype(self.dtype)
        return specs

    def __call__(self, training: bool = False, **inputs: mtf.Tensor) -> Any:
        return self.function(*inputs.values()) if len(inputs) == 1 else self.function(**inputs)


def predict(
    network: object, x: Arrays, *, model_dir: str | Path | None = None, loss: Losses = None, **options: Any
) -> Prediction:
    """Returns the predictions of a network for images.

    Args:
      network: the network, as in `fit`; without a `model_dir`, a network with weights: a Keras model, or a network of
        `mi.networks.load`.
      x: Array[samples, spatial..., channels], or several inputs as in `fit`.
      model_dir: the folder of a run with the weights.
      loss: the name of the loss, which determines the prediction: probabilities instead of outputs. For several
        outputs, a dict by name.
      **options: `layout`, `mesh_shape`, `sequential` and `offload_dir` as in `mi.Program`, and the options of
        `mi.training.prediction.predictor`.

    Returns:
      The predictions, Array[samples, ...]; a dict of arrays by name if the network has several outputs.

    Raises:
      ConfigError: the network has no weights.
      CheckpointError: the run has no checkpoint, or belongs to another network.
    """
    network = loaded(network)
    inputs = named_inputs(named(network, x))
    of_image = _trained(network, inputs, model_dir, loss, options)
    count = next(iter(inputs.values())).shape[0]
    samples = ({name: np.asarray(array[number]) for name, array in inputs.items()} for number in range(count))
    predictions = [of_each(np.asarray, of_image(image_of(own))) for own in samples]
    return of_each(lambda *each: np.stack(each), *predictions)


def evaluate(
    task: Task,
    x: Arrays,
    y: Arrays,
    *,
    model_dir: str | Path,
    measures: Mapping[str, str],
    **options: Any,
) -> dict[str, float]:
    """Returns the scores of the predictions for images with targets; see `History.evaluate`."""
    inputs = named_inputs(named(task, x))
    network = _trained(task, inputs, model_dir, None, options)
    pairs = ArrayPairs(inputs, dict(zip(measures, y)) if measures and isinstance(y, Sequence) else y)
    image = max((spec.shape for spec in pairs.inputs.values()), key=len)
    chosen = measures or {name: target_of(image, spec)[-1] for name, spec in pairs.targets.items()}
    return ScoredPairs(pairs, chosen).open(None, None)(network)[0]


def _trained(
    network: Any, inputs: Mapping[str, Samples], model_dir: str | Path | None, loss: Losses, options: dict[str, Any]
) -> Callable[[Any], Prediction]:
    """Returns a network with its weights as a function of one image; takes the layout from `options`."""
    layout, sizes = take_layout(options), image_sizes(inputs)
    shapes = {name: tuple(array.shape[1:]) for name, array in inputs.items()}
    losses = {} if loss is None else {name: named_loss(own) for name, own in named_outputs(loss).items()}
    task = as_task(network, shapes, options.get("dtype", "float32"), losses)
    if model_dir is not None:
        return predictor(task=task, sizes=sizes, model_dir=model_dir, layout=layout, **options)
    if isinstance(task, NetworkTask) and not _is_plain(network):
        builder = NetworkBuilder(task=task, layout=layout, **options)
        return builder.as_network(builder.program(sizes))
    raise ConfigError(
        "predict: the network is a function, and has no weights. Fix: give model_dir, the folder in which fit "
        "trained it, or call the method predict of what fit returned.",
        ["model_dir"],
    )


def loaded(network: object) -> Any:
    """Loads a network that is neither a task, a function of named tensors, nor loaded."""
    is_ready = _is_task(network) or _is_plain(network) or isinstance(network, Network)
    return network if is_ready else load(network)


def as_task(
    network: Any,
    shapes: Mapping[str, tuple[int, ...]],
    dtype: str,
    losses: Mapping[str, NamedLoss],
    targets: Mapping[str, tuple[str, str]] | None = None,
) -> Task:
    """Returns the task of a loaded network.

    Args:
      network: the network.
      shapes: {input: the shape of a sample}.
      dtype: the dtype of the images of a function.
      losses: {output: its loss}.
      targets: see `networks.task`.
    """
    if _is_task(network):
        return network
    own = _Function(network, shapes, dtype) if _is_plain(network) else network
    compute, prediction = sum_of_losses(losses)
    return network_task(own, compute, targets, prediction)


def _is_task(network: object) -> TypeGuard[Task]:
    methods = ("inputs", "loss", "predict")
    return not is_model(type(network)) and all(callable(getattr(network, name, None)) for name in methods)


def _is_plain(network: object) -> TypeGuard[Callable[..., Any]]:
    """Returns whether a network is a function of named tensors, without weights."""
    has_weights = isinstance(network, Network | str | Path) or is_model(type(network))
    return callable(network) and not has_weights and not hasattr(network, "get_concrete_function")


def take_layout(settings: dict[str, Any]) -> Layout:
    """Takes the layout from settings."""
    return Layout.of(**{"layout": "", **{name: settings.pop(name) for name in _LAYOUT if name in settings}})


def named(network: Any, x: Arrays) -> Samples | Mapping[str, Samples]:
    """Returns arrays by the names of the inputs of a network if they are in its order."""
    if not isinstance(x, Sequence):
        return x
    names = getattr(network, "input_names", None) or inspect.signature(getattr(network, "predict", network)).parameters
    if len(names) != len(x):
        raise DataError(
            f"the network has the inputs {', '.join(names)}, but x has {len(x)} arrays. Fix: give one array for each "
            "input; in an array of images, the first axis counts the images."
        )
    return dict(zip(names, x))


def target_of(image: tuple[int, ...], target: Spec) -> tuple[str, str, str, str]:
    """Returns the kind of targets, their dimensions, their default loss, and their measure.

    Args:
      image: the shape of an image.
      target: the specification of one target.
    """
    shape, is_integer = target.shape, target.dtype.kind in "biu"
    space = ",".join(("batch", *AXES[: len(image) - 1]))
    if is_integer and shape == image[:-1]:
        return LABELS, space, "dice_ce", "dice"
    if is_integer and shape == ():
        return LABELS, "batch", "cross_entropy", "accuracy"
    if shape[:-1] == image[:-1]:
        return VALUES, f"{space},values:{shape[-1]}", "mse", "r2"
    if len(shape) == 1:
        return VALUES, f"batch,values:{shape[0]}", "mse", "r2"
    raise DataError(
        f"the targets have the shape {list(shape)} and the dtype {target.dtype}, but images have "
        f"{list(image)}. Fix: give integers of the shape {list(image[:-1])} for classes of voxels, one integer for "
        "the class of an image, or numbers with a last axis like the outputs of the network."
    )
