"""The trained network of a run, or the networks of a cross-validation, as a function of an image."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mtf_imaging.inference.averages import ensemble, flipped
from mtf_imaging.inference.network import Network
from mtf_imaging.settings.setting import check_choice
from mtf_imaging.settings.values import DTYPES

if TYPE_CHECKING:
    from mtf_imaging.training.prediction import NetworkBuilder, TrainedRuns
    from mtf_imaging.training.task import Task


def task_for(task: "Task", description: object) -> "Task":
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
    from mtf_imaging.engine.meshes.group import current  # imported here because it imports TensorFlow

    return current().num == 1


def trained_network(
    settings: "NetworkBuilder",
    runs: "TrainedRuns",
    grids: Sequence[tuple[int, ...]],
    flips: Sequence[int] = (),
    *,
    any_size: bool = False,
) -> Network:
    """Builds the network with the weights of a run; its probabilities are averaged over flips and runs.

    With a window, each window is flipped, as in nnU-Net.

    Args:
      settings: how the network is built.
      runs: the run, or the runs of an ensemble.
      grids: voxels of the network's input along each spatial dimension. If there are several grids, there is a program
        for each, built when an image of this size first occurs; all of them have the same weights. With a window, there
        is only the program of the window.
      flips: axes to flip; probabilities are averaged over all combinations of flips.
      any_size: whether images may have other sizes than the grids, for each of which there is a program.

    Raises:
      CheckpointError: there is no checkpoint, or it belongs to another network.
      ConfigError: the dtype is unknown, the window is larger than a grid, or a checkpoint is damaged.
    """
    check_choice("dtype", settings.dtype, DTYPES)
    averaged = dataclasses.replace(settings, change=lambda network: flipped(settings.change(network), flips))
    networks, _ = runs.networks(averaged, grids[-1], None if any_size else grids[:-1])
    return ensemble(networks)
