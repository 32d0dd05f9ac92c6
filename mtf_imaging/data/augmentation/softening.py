"""Blurs channels, and reduces their resolution as if they came from another scanner.

A voxel depends on its neighbors, so a region is computed from a wider one. Both changes treat one axis after the other.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from mtf_imaging.data.augmentation.draws import Draws
from mtf_imaging.data.augmentation.regions import bounds_of, crop
from mtf_imaging.data.augmentation.rounding import add
from mtf_imaging.data.sampling.grid import AXIS_NAMES, Grid, Region

_WIDTH = 3  # standard deviations on each side of a Gaussian
_NO_BLUR = 1e-3  # a standard deviation whose Gaussian is exactly 0 at all neighbors


class Softening(NamedTuple):
    """The blur and the lower resolution of a sample.

    Attributes:
      blur: probability that a channel is blurred.
      blur_sd: (lowest, highest) standard deviation of the blur along each axis, in voxels.
      low_resolution: probability that a channel loses resolution.
      low_resolution_size: (lowest, highest) factor of the number of voxels along the axes.
      low_resolution_axes: names of these axes.
    """

    blur: float
    blur_sd: tuple[float, float]
    low_resolution: float
    low_resolution_size: tuple[float, float]
    low_resolution_axes: tuple[str, ...]

    def regions(self, region: Region, sizes: Grid) -> tuple[Region, Region]:
        """Returns the voxels that the lower resolution of a region needs, and those that their blur needs."""
        border = math.floor(1 / self.low_resolution_size[0] + 0.5)
        coarse = _widened(region, border, sizes) if self.low_resolution else region
        return coarse, _widened(coarse, self._reach, sizes) if self.blur else coarse

    def apply(self, image: tf.Tensor, region: Region, sizes: Grid, draws: Draws) -> tf.Tensor:
        """Returns a region of the changed sample.

        Args:
          image: Tensor[x, y, z, channels] float32, the last of the `regions`.
          region: a region of the sample.
          sizes: size of the sample in voxels along x, y, z.
          draws: random numbers of the sample.
        """
        channels, (coarse, wide) = image.shape[3], self.regions(region, sizes)
        if self.blur:
            chosen, sds = _draw(draws, "blur", self.blur, self.blur_sd, [len(AXIS_NAMES), channels])
            sds, blurred = tf.where(chosen, sds, _NO_BLUR), image
            image = _if_any(chosen, lambda: self._blurred(blurred, sds, coarse, wide, sizes), blurred, coarse, wide)
        if self.low_resolution:
            size, whole = self.low_resolution_size, image
            chosen, factors = _draw(draws, "low_resolution", self.low_resolution, size, [channels])
            factors = tf.where(chosen, factors, 1.0)
            image = _if_any(chosen, lambda: self._reduced(whole, factors, region, coarse, sizes), whole, region, coarse)
        return image

    @property
    def _reach(self) -> int:
        return math.ceil(_WIDTH * self.blur_sd[1])

    def _blurred(self, image: tf.Tensor, sds: tf.Tensor, region: Region, wide: Region, sizes: Grid) -> tf.Tensor:
        """Returns a region of Tensor[x, y, z, channels], with sds [3, channels]; the border of a sample is repeated."""
        offsets = np.arange(-self._reach, self._reach + 1)
        weights = tf.exp(-0.5 * tf.square(offsets.astype(np.float32)[:, None] / sds[:, None]))
        weights = tf.unstack(weights / tf.reduce_sum(weights, 1, keepdims=True), axis=1)  # [3, channels] of each offset
        for axis, (own, outer, n) in enumerate(zip(region, wide, sizes, strict=True)):
            at = [np.clip(np.arange(own.start, own.stop) + offset, 0, n - 1) - outer.start for offset in offsets]
            image = _mix(image, axis, zip(at, (weight[axis] for weight in weights), strict=True))
        return image

    def _reduced(self, image: tf.Tensor, factors: tf.Tensor, region: Region, wide: Region, sizes: Grid) -> tf.Tensor:
        """Returns a region of Tensor[x, y, z, channels]: every 1 / factor-th voxel, interpolated linearly."""
        channels = []
        for channel, factor in zip(tf.unstack(image, axis=3), tf.unstack(factors), strict=True):
            for axis, (own, outer, n, name) in enumerate(zip(region, wide, sizes, AXIS_NAMES, strict=True)):
                share = factor if name in self.low_resolution_axes else 1.0
                fewer = tf.cast(tf.math.ceil(n * share), tf.int32)
                odd = 2 * np.arange(own.start, own.stop, dtype=np.int32) + 1
                place = tf.clip_by_value(odd * fewer - n, 0, 2 * n * (fewer - 1))  # in units of 1 / 2n coarse voxels
                first = place // (2 * n)
                part = tf.cast(place - first * 2 * n, tf.float32) / (2 * n)
                part = tf.reshape(part, [-1] + [1] * (2 - axis))
                ends = (first, 1 - part), (tf.minimum(first + 1, fewer - 1), part)
                taps = [((2 * at + 1) * n // (2 * fewer) - outer.start, weight) for at, weight in ends]
                channel = _mix(channel, axis, taps)
            channels.append(channel)
        return tf.stack(channels, 3)


def _draw(draws: Draws, name: str, probability: float, bounds: tuple[float, float], shape: list[int]) -> tuple:
    """Returns which channels change, Tensor[channels] bool, and how much, Tensor[shape]."""
    return draws.uniform(name, shape=shape[-1:]) < probability, draws.uniform(f"{name}/amount", *bounds, shape)


def _if_any(chosen: tf.Tensor, change, image: tf.Tensor, region: Region, wide: Region) -> tf.Tensor:
    """Returns `change()` if any channel is chosen, otherwise the region of the image."""
    return tf.cond(tf.reduce_any(chosen), change, lambda: crop(image, bounds_of(wide)[:, 0], region))


def _mix(values: tf.Tensor, axis: int, taps: Iterable[tuple]) -> tf.Tensor:
    """Returns a sum of products along an axis, of (indices, weights), one after the other to save memory."""
    total = None
    for indices, weights in taps:
        with tf.control_dependencies([] if total is None else [total]):
            term = tf.gather(values, indices, axis=axis) * weights
        total = term if total is None else add(total, term)
    return total


def _widened(region: Region, border: int, sizes: Grid) -> Region:
    x, y, z = (slice(max(at.start - border, 0), min(at.stop + border, n)) for at, n in zip(region, sizes, strict=True))
    return x, y, z
