"""The trained network of a run, or the networks of a cross-validation, as a function of an image."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtf_imaging.evaluation.averaging.ensemble import over_networks
from mtf_imaging.evaluation.averaging.flips import check_flips, over_flips
from mtf_imaging.layout import Layout
from mtf_imaging.settings.setting import check_choice
from mtf_imaging.settings.values import DTYPES

if TYPE_CHECKING:
    from mtf_imaging.training.evaluation import Predict
    from mtf_imaging.training.sliding_window.windows import SlidingWindow
    from mtf_imaging.training.task import Task


def task_for(task: "Task", description: Any) -> "Task":
    """Returns a task for the data of a description; a task without the method `for_data` stays as it is.

    Args:
      task: the task.
      description: the description, or None for a custom data set.

    Raises:
      ConfigError: the task cannot be trained on such data.
    """
    for_data = getattr(task, "for_data", None)
    return task if description is None or for_data is None else for_data(description)


def is_alone() -> bool:
    """Returns whether this process computes networks alone. Otherwise the other processes wait for each image."""
    from mtf_imaging.meshes.group import current  # imported here because it imports TensorFlow

    return current().num == 1


def trained_network(
    task: "Task",
    grids: Sequence[tuple[int, ...]],
    model_dir: str | Path | Sequence[Path],
    checkpoint: str,
    flips: Sequence[str] = (),
    *,
    layout: Layout,
    mesh_impl: str,
    dtype: str,
    progress: bool,
    any_size: bool = False,
    window: "SlidingWindow | None" = None,
    averages: bool = True,
    batch_size: int = 1,
    on_restored: "Callable[[str | Path, str], object] | None" = None,
    member: "Callable[[Predict], Predict] | None" = None,
) -> "Predict":
    """Builds the network with the weights of a run; its probabilities are averaged over flips and runs.

    Args:
      task: the network that the run trained.
      grids: voxels of the network's input along each spatial dimension. If there are several grids, there is a program
        for each, built when an image of this size first occurs; all of them have the same weights.
      model_dir: the run folder, or the run folders of an ensemble.
      checkpoint: "last" or "best".
      flips: axes to flip; probabilities are averaged over all combinations of flips.
      layout: the layout.
      mesh_impl: the mesh implementation, as in `Program`.
      dtype: the dtype of images and activations.
      progress: whether to show progress while the network is built.
      any_size: whether images may have other sizes than the grids, for each of which there is a program.
      window: the window that slides over images of any size, for which the only program is built; None to compute a
        whole image at once.
      averages: whether to use the averages of the weights, if the run has them.
      batch_size: the number of images that the method `predict_batch` of the network takes.
      on_restored: a function that is called with the folder and the path of each checkpoint that is restored.
      member: a function that changes the network of each run before its probabilities are averaged; None for no change.

    Raises:
      CheckpointError: there is no checkpoint, or it belongs to another network.
      ConfigError: an axis or the dtype is unknown, the window is larger than a grid, or a checkpoint is damaged.
    """
    from mtf_imaging.training.prediction import predictors  # imported here because it imports TensorFlow

    check_choice("dtype", dtype, DTYPES)
    check_flips(tuple(flips))
    networks = predictors(
        task=task,
        sizes=grids[-1],
        other_sizes=None if any_size else grids[:-1],
        model_dirs=[model_dir] if isinstance(model_dir, str | Path) else model_dir,
        checkpoint=checkpoint,
        layout=layout,
        mesh_impl=mesh_impl,
        dtype=dtype,
        progress=progress,
        window=window,
        averages=averages,
        batch_size=batch_size,
        on_restored=on_restored,
    )
    members = networks if member is None else [member(network) for network in networks]
    return over_networks([over_flips(network, tuple(flips)) for network in members])
