"""Checks of runs on custom data sets: evaluation and prediction can read only volumes for them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mtf_imaging.data.sampling.grid import AXIS_NAMES
from mtf_imaging.errors import ConfigError
from mtf_imaging.kinds.facts import Facts
from mtf_imaging.kinds.kind import ARRAYS
from mtf_imaging.layout import parse_shape

if TYPE_CHECKING:
    from mtf_imaging.training.task import Task

_DIMENSIONS = ["batch", *AXIS_NAMES, "channels"]


def check_axes(run: Path, facts: Facts) -> None:
    """Checks that the images of a run are volumes, if it was trained on a custom data set.

    Raises:
      ConfigError: they are not.
    """
    if facts.kind == ARRAYS and facts.axes != list(AXIS_NAMES):
        raise _unreadable(run, facts, f"the axes {', '.join(facts.axes)}")


def check_input(task: "Task", run: Path, facts: Facts | None, sizes: Sequence[int]) -> None:
    """Checks that the task of a run on a custom data set predicts volumes of one channel.

    Args:
      task: the task of the run.
      run: the folder of the run.
      facts: the facts of the run.
      sizes: voxels along x, y and z.

    Raises:
      ConfigError: it does not.
    """
    if facts is None or facts.kind != ARRAYS:
        return
    from mtf_imaging.training.task import task_inputs  # imported here because it imports TensorFlow

    inputs = task_inputs(task, 1, sizes, labels=False)
    shapes = {name: parse_shape(shape) for name, (shape, _) in inputs.items()}
    if list(shapes) != ["image"] or [name for name, _ in shapes["image"]] != _DIMENSIONS or shapes["image"][-1][1] != 1:
        shown = " and ".join(f"'{name}' [{shape}]" for name, (shape, _) in inputs.items())
        raise _unreadable(run, facts, f"the shape {shown}")


def _unreadable(run: Path, facts: Facts, what: str) -> ConfigError:
    return ConfigError(
        f"{run}: the network was trained on a custom data set, and its input has {what}. Evaluation and prediction "
        "read volumes with the axes x, y, z and one channel for it. Fix: export the run, or call "
        f"mi.training.prediction.predictor(task=..., sizes={facts.sizes}, model_dir={str(run)!r}); prepare the images "
        "as the data set does.",
        ["model_dir"],
    )
