"""The gin configurable `job`: the task and the settings that training, evaluation and prediction share."""

import dataclasses
from typing import Any

import gin

from mtf_imaging.data.intensity import DEFAULT_WINDOW
from mtf_imaging.data.sampling.grid import AXIS_NAMES, PHOTO_AXES
from mtf_imaging.evaluation.averaging.flips import check_flips
from mtf_imaging.evaluation.cleanup import Cleanup
from mtf_imaging.kinds.inference import ONE_SCALE
from mtf_imaging.kinds.photos.infer import check_scales
from mtf_imaging.kinds.settings import DTYPES, check_choice
from mtf_imaging.training.task import Task


@gin.configurable("job", module="mtf_imaging")
@dataclasses.dataclass(frozen=True)
class Job:
    """The settings that training, evaluation and prediction share.

    Attributes:
      task: the network and its loss, a `training.task.Task`.
      window: (low, high) in HU; image intensities are clipped to this window.
      dtype: type of images and activations. "float32"; "bfloat16" for half the memory, with weights, norm statistics,
        the optimizer and losses still in float32; "float64" for everything, to compare runs digit by digit.
      largest_liver: whether evaluate and predict keep only the largest component of the liver, lesions included.
      lesions_in_liver: whether evaluate and predict drop lesions that do not touch the liver.
      flips: axes, for instance ("x", "y", "z"), or ("width",) of photos. evaluate and predict average the probabilities
        over all combinations of flips along these axes; n axes take 2^n times as long.
      scales: factors of the size of photos, for instance (0.5, 1.0, 1.5). evaluate and predict average the
        probabilities over all of them.
    """

    task: Task = gin.REQUIRED
    window: tuple[float, float] = DEFAULT_WINDOW
    dtype: str = "float32"
    largest_liver: bool = False
    lesions_in_liver: bool = False
    flips: tuple[str, ...] = ()
    scales: tuple[float, ...] = ONE_SCALE

    def __post_init__(self):
        check_choice("dtype", self.dtype, DTYPES)
        check_flips(self.flips, axis_names=(*AXIS_NAMES, *PHOTO_AXES))
        check_scales(self.scales)
        _ = self.cleanup  # checks largest_liver and lesions_in_liver

    @property
    def cleanup(self) -> Cleanup:
        """The postprocessing of the segmentation in evaluate and predict."""
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
            "scales": self.scales,
        }
