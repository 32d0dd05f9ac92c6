"""Training on arrays, in one call."""

import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from mtf_imaging.data.pairs import ArrayPairs, Arrays, DatasetPairs, ScoredPairs
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.inference.several import named_outputs, target_name
from mtf_imaging.jobs.array_networks import Losses, as_task, loaded, named, take_layout, target_of
from mtf_imaging.jobs.data.training_data import TrainingData
from mtf_imaging.jobs.history import History
from mtf_imaging.jobs.training import train
from mtf_imaging.parameters import check_value
from mtf_imaging.training.callbacks import Callback
from mtf_imaging.training.losses import LABELS, named_loss
from mtf_imaging.training.task import Task


def fit(
    network: object,
    x: "Arrays | tf.data.Dataset",
    y: Arrays | None = None,
    loss: Losses = None,
    *,
    loss_weights: float | Mapping[str, float] | Sequence[float] = 1.0,
    validation: tuple[Arrays, Arrays] | None = None,
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
        network of `mi.networks.load`; or a task with a loss of its own. Several inputs are keyword arguments of the
        function; it returns several outputs as a dict or a tuple.
      x: images, Array[samples, spatial..., channels]: NumPy, memory-mapped, Zarr, or anything with slices, of which
        only the samples and slices of a step are read; or a `tf.data.Dataset` of pairs (image, target). If the network
        has several inputs, they are a dict of arrays by name, or a tuple in their order.
      y: targets: integers Array[samples, spatial...] are classes of voxels, integers Array[samples] are classes of
        images, and Array[samples, ..., values] are numbers like the outputs of the network. Targets of several outputs
        are a dict by name, or a tuple.
      loss: "dice_ce", "cross_entropy", "binary_cross_entropy", "mse", "mae", or a function `loss(outputs, targets)` of
        tensors that returns a scalar Tensor, or a pair of it and a dict of measures. The default is dice_ce for classes
        of voxels, cross_entropy for classes of images, and mse for numbers. For several outputs, the sum of their
        losses is trained: the same one for all, or a dict of losses by name.
      loss_weights: the factors of the losses in the sum: one for all, a dict by name, or a tuple.
      validation: a pair (x, y) of arrays that are not trained on. They are scored every `eval_every` steps: the mean
        Dice of the classes without 0, the accuracy of images, or the coefficient of determination (r2). The score of
        one of several outputs has its name, as in "mask_dice"; the first one selects the best checkpoint.
      callbacks: functions of the number of finished steps and a dict of values, such as "loss" and "held_out/dice"; a
        string that one returns stops the training. `mi.training.callbacks` has EarlyStopping and ReduceOnPlateau.
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
    network = loaded(network)
    pairs = _pairs(network, x, y)
    task, measures = _task(network, pairs, loss, loss_weights, settings.get("dtype", "float32"))
    folder = Path(model_dir or tempfile.mkdtemp(prefix="mtf_imaging_fit_"))
    held_out = None if validation is None else ArrayPairs(named(network, validation[0]), validation[1])
    scored = ScoredPairs(held_out, measures) if held_out else None
    if "steps" in settings:
        settings["num_steps"] = settings.pop("steps")
    try:
        history = train(
            task=task,
            data=TrainingData("arrays", data_set=pairs, eval_dir="validation" if scored else None, evaluation=scored),
            model_dir=folder,
            layout=take_layout(settings),
            callbacks=callbacks,
            **{"monitor": scored.measures[0] if scored else None, **settings},
        )
        _ = history.losses, history.scores  # which outlive a temporary folder
    except BaseException:
        if model_dir is None:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    history.measures = measures
    if model_dir is None:
        weakref.finalize(history, shutil.rmtree, folder, ignore_errors=True)
    return history


def _pairs(network: Any, x: "Arrays | tf.data.Dataset", y: Arrays | None) -> ArrayPairs | DatasetPairs:
    if isinstance(x, tf.data.Dataset):
        return DatasetPairs(x)
    if y is None:
        raise DataError("there are no targets. Fix: give y, or a tf.data.Dataset of pairs (image, target).")
    return ArrayPairs(named(network, x), y)


def _by_target(pairs: ArrayPairs | DatasetPairs, values: Any, what: str) -> dict[str, Any]:
    """Returns a value for each target; a single one counts for all."""
    own = named_outputs(values)
    own = dict.fromkeys(pairs.targets, values) if [*own] == [""] else own
    if own.keys() != pairs.targets.keys():
        names = ", ".join(pairs.targets)
        given, fix = (names, "for each of them") if names else ("a single output", "without a name")
        message = f"{what} is for {', '.join(own)}, but the targets are for {given}. Fix: give one {fix}."
        raise ConfigError(message, [what])
    return own


def _task(
    network: Any, pairs: ArrayPairs | DatasetPairs, loss: Losses, loss_weights: Any, dtype: str
) -> tuple[Task, dict[str, str]]:
    """Returns the task of a network with its losses, and the measure of each output of held-out samples."""
    chosen, weights = _by_target(pairs, loss, "loss"), _by_target(pairs, loss_weights, "loss_weights")
    shapes = {name: spec.shape for name, spec in pairs.inputs.items()}
    image, losses, specs, measures = max(shapes.values(), key=len), {}, {}, {}
    for output, target in pairs.targets.items():
        check_value("loss_weights", weights[output], float, ["loss_weights"], least=0)
        targets, dims, default, measures[output] = target_of(image, target)
        losses[output] = named_loss(chosen[output] or default, targets)._replace(weight=weights[output])
        specs[target_name(output)] = (dims, "int32" if targets == LABELS else "float32")
        if chosen[output] == "binary_cross_entropy":
            measures[output] = "dice"
    return as_task(network, shapes, dtype, losses, specs), measures
