"""The job that gin describes: the task, and what training, evaluation and prediction share of it."""

import dataclasses
from typing import Any

import gin

from mtf_imaging.data.intensity import DEFAULT_WINDOW
from mtf_imaging.evaluation.segment.cleanup import Cleanup
from mtf_imaging.evaluation.segment.flips import check_flips
from mtf_imaging.jobs.settings import DTYPES, check_choice
from mtf_imaging.training.task import Task


@gin.configurable("job", module="mtf_imaging")
@dataclasses.dataclass(frozen=True)
class Job:
    """What training and use of a network have in common.

    Attributes:
      task: a `training.task.Task`.
      window: (low, high) in HU, which the image is clipped to.
      dtype: of images and activations: "float32"; "bfloat16" for half the memory, with weights, norm statistics, the
        optimizer and losses still in float32; "float64", all of it, to compare runs digit by digit.
      largest_liver: whether evaluate and predict keep the largest component of the liver alone, lesions included.
      lesions_in_liver: whether they drop lesions that do not touch the liver.
      flips: axes, as ("x", "y", "z"), over all combinations of whose flips they average the probabilities; n of them
        take 2^n times as long.
    """

    task: Task = gin.REQUIRED
    window: tuple[float, float] = DEFAULT_WINDOW
    dtype: str = "float32"
    largest_liver: bool = False
    lesions_in_liver: bool = False
    flips: tuple[str, ...] = ()

    def __post_init__(self):
        check_choice("dtype", self.dtype, DTYPES)
        check_flips(self.flips)
        _ = self.cleanup  # checks the two

    @property
    def cleanup(self) -> Cleanup:
        """What evaluate and predict remove of what the network finds."""
        return Cleanup(self.largest_liver, self.lesions_in_liver)

    @property
    def network(self) -> dict[str, Any]:
        """Keyword arguments of `jobs.evaluate` and `jobs.predict`."""
        return {
            "task": self.task,
            "window": self.window,
            "dtype": self.dtype,
            "cleanup": self.cleanup,
            "flips": self.flips,
        }
