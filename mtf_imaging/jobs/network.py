"""The trained network of a run, or the networks of a cross-validation, as a function of an image."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtf_imaging.data.description.description import Description
from mtf_imaging.data.objects.description import ObjectDescription
from mtf_imaging.data.photos.description import PhotoDescription
from mtf_imaging.evaluation.segment.ensemble import over_networks
from mtf_imaging.evaluation.segment.flips import check_flips, over_flips
from mtf_imaging.evaluation.segment.predict import PredictProbabilities
from mtf_imaging.layout import Layout
from mtf_imaging.settings.setting import check_choice
from mtf_imaging.settings.values import DTYPES

if TYPE_CHECKING:
    from mtf_imaging.training.evaluation import Predict
    from mtf_imaging.training.task import Task

AnyDescription = Description | PhotoDescription | ObjectDescription
_MULTIPLE = 64  # pixels


def task_for(task: "Task", description: AnyDescription | None) -> "Task":
    """Returns a task for the data of a description; a task without the method `for_data` stays as it is.

    Args:
      task: the task.
      description: the description, or None for a custom data set.

    Raises:
      ConfigError: the task cannot be trained on such data.
    """
    for_data = getattr(task, "for_data", None)
    return task if description is None or for_data is None else for_data(description)


def prediction_multiple(task: "Task") -> int:
    """Returns the number of pixels to whose multiples photos larger than the crops of the training are padded."""
    return getattr(task, "multiple", _MULTIPLE)


def photo_network(
    task: "Task",
    sizes: tuple[int, ...],
    model_dirs: Sequence[Path],
    checkpoint: str,
    *,
    layout: Layout,
    mesh_impl: str,
    dtype: str,
    progress: bool,
) -> PredictProbabilities:
    """Builds the network with the weights of a run on photos, as a function of images of any size.

    Args:
      task: the network that the run trained.
      sizes: height and width of the first program. There is a program for each size, built when an image of this size
        first occurs; all of them have the same weights.
      model_dirs: the folder of the run, or the folders of the runs of an ensemble, whose probabilities are averaged.
      checkpoint: "last" or "best".
      layout, mesh_impl, dtype, progress: the same as in `trained_network`.

    Raises:
      CheckpointError: there is no checkpoint, or it belongs to another network.
      ConfigError: the dtype is unknown.
    """
    from mtf_imaging.training.prediction import predictors  # imported here because it imports TensorFlow

    check_choice("dtype", dtype, DTYPES)
    options: dict[str, Any] = {"layout": layout, "mesh_impl": mesh_impl, "dtype": dtype, "progress": progress}
    networks = predictors(
        task=task, sizes=sizes, other_sizes=None, model_dirs=model_dirs, checkpoint=checkpoint, **options
    )
    return over_networks(networks)


def object_network(
    task: "Task",
    sizes: tuple[int, ...],
    model_dir: Path,
    checkpoint: str,
    *,
    layout: Layout,
    mesh_impl: str,
    dtype: str,
    progress: bool,
) -> "Predict":
    """Builds the network with the weights of a run on objects, as a function of images of one size.

    Args:
      task: the network that the run trained.
      sizes: height and width of the network's input.
      model_dir: the folder of the run.
      checkpoint: "last" or "best".
      layout, mesh_impl, dtype, progress: the same as in `trained_network`.

    Raises:
      CheckpointError: there is no checkpoint, or it belongs to another network.
      ConfigError: the dtype is unknown.
    """
    from mtf_imaging.training.prediction import predictor  # imported here because it imports TensorFlow

    check_choice("dtype", dtype, DTYPES)
    options: dict[str, Any] = {"layout": layout, "mesh_impl": mesh_impl, "dtype": dtype, "progress": progress}
    return predictor(task=task, sizes=sizes, model_dir=model_dir, checkpoint=checkpoint, **options)


def trained_network(
    task: "Task",
    grids: Sequence[tuple[int, ...]],
    model_dir: str | Path | Sequence[Path],
    checkpoint: str,
    flips: Sequence[str],
    *,
    layout: Layout,
    mesh_impl: str,
    dtype: str,
    progress: bool,
) -> PredictProbabilities:
    """Builds the network with the weights of a run; its probabilities are averaged over flips and runs.

    Args:
      task: the network that the run trained.
      grids: voxels of the network's input along each spatial dimension. If there are several grids, there is a program
        for each, built when an image of this size first occurs; all of them have the same weights.
      model_dir: the folder of the run, or the folders of the runs of an ensemble.
      checkpoint: "last" or "best".
      flips: axes to flip; probabilities are averaged over all combinations of flips.
      layout: the layout.
      mesh_impl: the mesh implementation, as in `Program`.
      dtype: the dtype of images and activations.
      progress: whether to show progress while the network is built.

    Raises:
      CheckpointError: there is no checkpoint, or it belongs to another network.
      ConfigError: an axis or the dtype is unknown.
    """
    from mtf_imaging.training.prediction import predictor, predictors  # imported here because it imports TensorFlow

    check_choice("dtype", dtype, DTYPES)
    check_flips(tuple(flips))
    options: dict[str, Any] = {"layout": layout, "mesh_impl": mesh_impl, "dtype": dtype, "progress": progress}
    model_dirs = [model_dir] if isinstance(model_dir, str | Path) else model_dir
    options |= {"task": task, "sizes": grids[-1], "other_sizes": grids[:-1], "checkpoint": checkpoint}
    if len(model_dirs) == 1:
        return over_flips(predictor(model_dir=model_dirs[0], **options), tuple(flips))
    networks = predictors(model_dirs=model_dirs, **options)
    return over_networks([over_flips(network, tuple(flips)) for network in networks])
