"""The cost of a prediction, of the whole image at once or with a sliding window."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from mtf_imaging.files.blocks import is_small
from mtf_imaging.planner.cost.hardware import Hardware
from mtf_imaging.planner.cost.plan import Plan
from mtf_imaging.planner.cost.start_up import start_ups
from mtf_imaging.planner.cost.step_time import step_time

WINDOW_STEP = 0.5  # distance between neighboring windows, as a share of the window size
BYTES = 4  # of an image's values and of probabilities, which are float32 in `predict`
# Measured for U-Nets on a CPU (docs/evidence/memory.md).
_LIBRARIES = 310_000_000  # bytes of `PROCESS` that the system can drop, less those of threads and kernels
_KEPT = 1.5  # tensors, workspace of kernels and freed memory, in parts of the tensors
_SLABS, _READING = 4, 128 << 20  # slabs while an image is read, and the most bytes of these slabs
_ROWS = 4  # rows of probabilities that become labels at a time


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


def array_bytes(
    image: Sequence[int], channels: int, labels: int, window: Sequence[int] | None = None
) -> tuple[int, int]:
    """Returns the bytes of a volume and the sums of its windows, in files and in memory; see `files.blocks`.

    Args:
      image: voxels of the volume along each dimension.
      channels: the number of channels.
      labels: the number of labels.
      window: voxels of the window along each dimension; None for the whole volume at once.
    """
    arrays, sums = [(*image, channels)], (*image, labels)
    if window is None:
        arrays *= 2  # the network reads a copy, which is not in blocks
    elif is_small(sums, np.float32):
        arrays.append(sums)
    else:
        arrays += [(window[0], *sums[1:])] * 2  # the rows that windows still change, before and after a step
    held = [BYTES * math.prod(shape) for shape in arrays if is_small(shape, np.float32)]
    return BYTES * sum(map(math.prod, arrays)) - sum(held), sum(held)


def window_bytes(plan: Plan, image: Sequence[int], labels: int, voxels: int) -> int:
    """Returns the bytes that a process on a CPU needs to read an image and to predict its windows, without the arrays.

    Args:
      plan: the plan of a forward pass of all windows of a batch.
      image: voxels of the image along each dimension.
      labels: the number of labels.
      voxels: voxels of all windows of a batch.
    """
    results = BYTES * labels * (2 * voxels + math.prod((_ROWS, *image[1:])))
    tensors = 0 if plan.turns else int(_KEPT * plan.temporary * plan.devices)  # turns are counted elsewhere
    return max(tensors + results, min(_READING, _SLABS * BYTES * math.prod(image)))


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The cost of predicting one image.

    Attributes:
      plan: the plan of one forward pass.
      passes: the number of forward passes: 1 for the whole image at once.
      hardware: the kind of device, or None.
      dtype: the activation dtype.
      labels: the number of values that the network predicts for a voxel; None if it predicts no map.
      files: bytes of the temporary files, including the values that wait between turns.
      windows: bytes of the windows and arrays of a process on a CPU; 0 for the whole image at once.
    """

    plan: Plan
    passes: int
    hardware: Hardware | None
    dtype: str
    labels: int | None
    files: int
    windows: int = 0

    @property
    def process(self) -> int | None:
        """The bytes of a process on a CPU, with TensorFlow but without pages of files; None for the image at once."""
        turns = self.plan.turns
        start = start_ups(self.plan, 0)["turns" if turns else "stacked"]
        return start.process_memory - _LIBRARIES + self.windows if turns or self.windows else None

    @property
    def seconds(self) -> float | None:
        """The seconds of all forward passes, or None if the device is unknown."""
        return self.hardware and self.passes * step_time(self.plan, self.hardware, self.dtype).total

    @property
    def fits(self) -> bool | None:
        """Whether a forward pass fits in device memory, or None if the device is unknown."""
        return self.hardware and self.plan.memory <= self.hardware.usable_memory


@dataclasses.dataclass(frozen=True)
class ImageCost:
    """The patches of an image, and the two ways to predict the image.

    Attributes:
      patch: voxels of a patch along each dimension; those of the image if a step computes whole images.
      image: voxels of the image along each dimension.
      window_step: distance between neighboring windows, as a share of the patch size.
      sliding: the cost of a prediction with windows as large as the patch; None if unknown, or without patches.
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
    def has_patches(self) -> bool:
        """Whether a step computes patches."""
        return self.patch != self.image

    @property
    def labels(self) -> int | None:
        """The number of values that the network predicts for a voxel; None if it predicts no map."""
        return next((each.labels for each in (self.sliding, self.whole) if each), None)

    @property
    def all_probabilities(self) -> int:
        """The bytes of the probabilities of all labels, which nnU-Net keeps in memory."""
        return BYTES * (self.labels or 0) * math.prod(self.image)

    @property
    def share(self) -> float:
        """The share of the image's voxels in a patch, 0..1."""
        return math.prod(self.patch) / math.prod(self.image)
