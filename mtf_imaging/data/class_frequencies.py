"""Frequencies of a network's outputs in the labels of a data set, which determine its initial biases."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

NUM_VALUES = 256  # labels are stored as uint8
MOST_IMAGES = 64  # enough for frequencies; counting the labels of a large data set would take minutes
_DIGITS = 4
_Item = TypeVar("_Item")


def evenly_spread(items: Sequence[_Item], most: int = MOST_IMAGES) -> list[_Item]:
    """Returns at most `most` items, evenly spread over a sequence.

    >>> evenly_spread([0, 1, 2, 3, 4, 5], 3)
    [0, 2, 4]
    """
    number = min(len(items), most)
    return [items[index * len(items) // number] for index in range(number)]


def class_frequencies(
    counts: np.ndarray, outputs: Sequence[Sequence[int]], ignore: int | None = None
) -> tuple[float, ...] | None:
    """Returns the fraction of labeled voxels or pixels that belong to each network output.

    Args:
      counts: int64 `[256]`, the number of voxels per label.
      outputs: the labels that belong to each output.
      ignore: the label whose voxels do not count, or None.

    Returns:
      One fraction per output, rounded to four significant digits. None if no voxel counts.

    >>> class_frequencies(np.array([80, 15, 5, 100]), [[0], [1, 2], [2]], ignore=3)
    (0.8, 0.2, 0.05)
    """
    counted = counts.copy()
    if ignore is not None:
        counted[ignore] = 0
    total = int(counted.sum())
    if not total:
        return None
    return tuple(float(f"{counted[list(values)].sum() / total:.{_DIGITS}g}") for values in outputs)
