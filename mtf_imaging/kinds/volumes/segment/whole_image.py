"""Whole-image functions with the interface of networks that are split over processes; one process computes all."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mtf_imaging.layout.regions import whole_region

if TYPE_CHECKING:
    from mtf_imaging.training.slices import ImageSlices


class WholeImage:
    """A function of a whole image, with the interface of `training.slices.ImageSlices`.

    Args:
      predict: the function, image `[x, y, z, channels]` -> probabilities `[x, y, z, classes]`.
      sizes: voxels of the image along x, y and z.
      num_channels: number of channels of the image.
      num_outputs: number of classes or masks in the probabilities.
    """

    def __init__(
        self, predict: Callable[[np.ndarray], np.ndarray], sizes: Sequence[int], num_channels: int, num_outputs: int
    ) -> None:
        from mtf_imaging.meshes.group import ALONE  # imported here because it imports TensorFlow

        self.group, self.predict = ALONE, predict
        self.inputs, self.outputs = ([whole_region((*sizes, last))] for last in (num_channels, num_outputs))


def image_slices(
    network: Callable[[np.ndarray], np.ndarray], sizes: Sequence[int], num_channels: int, num_outputs: int
) -> "ImageSlices":
    """Returns the slices of an image that the processes compute.

    Args:
      network: an `ImageNetwork`, or a function of a whole image.
      sizes, num_channels, num_outputs: the same as in `WholeImage`.
    """
    if hasattr(network, "slices"):
        return network.slices(sizes)
    return WholeImage(network, sizes, num_channels, num_outputs)
