"""The cost of a prediction, of the whole image at once or with a sliding window."""

import dataclasses
import math
from collections.abc import Sequence

from mtf_imaging.planner.cost.hardware import Hardware
from mtf_imaging.planner.cost.plan import Plan
from mtf_imaging.planner.cost.step_time import step_time

WINDOW_STEP = 0.5  # distance between neighboring windows, as a share of the window size


def window_count(image: Sequence[int], window: Sequence[int], step: float = WINDOW_STEP) -> int:
    """Returns the number of windows that cover an image.

    Neighboring windows are at most `step` times the window size apart, and the last one ends with the image.

    >>> window_count((128, 128, 64), (64, 64, 64)), window_count((100, 64), (64, 64))
    (9, 3)

    Args:
      image: voxels of the image along each dimension.
      window: voxels of the window along each dimension.
      step: distance between neighboring windows, as a share of the window size.
    """
    return math.prod(
        1 if size <= own else math.ceil((size - own) / max(1, round(own * step))) + 1
        for size, own in zip(image, window, strict=True)
    )


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The cost of predicting one image.

    Attributes:
      plan: the plan of one forward pass.
      passes: the number of forward passes: 1 for the whole image at once.
      hardware: the kind of device, or None.
      dtype: the activation dtype.
    """

    plan: Plan
    passes: int
    hardware: Hardware | None
    dtype: str

    @property
    def seconds(self) -> float | None:
        """The seconds of all forward passes, or None if the device is unknown."""
        return self.hardware and self.passes * step_time(self.plan, self.hardware, self.dtype).total

    @property
    def fits(self) -> bool | None:
        """Whether a forward pass fits in device memory, or None if the device is unknown."""
        return self.hardware and self.plan.memory <= self.hardware.usable_memory


@dataclasses.dataclass(frozen=True)
class PatchCost:
    """The patches of an image, and the two ways to predict the image.

    Attributes:
      patch: voxels of a patch along each dimension.
      image: voxels of the image along each dimension.
      window_step: distance between neighboring windows, as a share of the patch size.
      sliding: the cost of a prediction with windows as large as the patch; None if unknown.
      whole: the cost of predicting the whole image at once; None if the network or the layout does not accept it.
    """

    patch: tuple[int, ...]
    image: tuple[int, ...]
    window_step: float
    sliding: Prediction | None
    whole: Prediction | None

    @property
    def windows(self) -> int:
        """The number of windows that cover the image."""
        return window_count(self.image, self.patch, self.window_step)

    @property
    def share(self) -> float:
        """The share of the image's voxels in a patch, 0..1."""
        return math.prod(self.patch) / math.prod(self.image)
