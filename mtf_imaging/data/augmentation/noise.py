"""Adds noise at several scales, from single voxels (like detector noise) to patches (like artifacts)."""

from typing import Any

import tensorflow as tf

from mtf_imaging.data.augmentation.checks import known_sizes
from mtf_imaging.data.augmentation.draws import Draws
from mtf_imaging.data.augmentation.smooth import linear_field


def add_noise(image, largest: float, scales: tuple[int, ...], probability: float, draws: Draws, unit: Any = 1.0):
    """Adds Gaussian noise at each of `scales`, with `probability`.

    At scale s, one value is drawn for every s x s x s voxels and interpolated linearly. The standard deviation of each
    scale is drawn uniformly from 0..largest. Values are clipped to two standard deviations. Each channel gets its own
    noise.

    Args:
      image: Tensor[x, y, z, channels] float32.
      largest: largest standard deviation, in units of the channel.
      scales: scales in voxels.
      probability: probability that any noise is added.
      draws: random numbers of the sample.
      unit: the unit of each channel, see `ValueRanges`.

    Returns:
      The changed image.
    """
    sizes = known_sizes(image)

    def noisy():
        noisier = image
        for scale in scales:
            points = [max(1, n // scale) for n in sizes]
            fields = []
            for channel in range(image.shape[3]):
                name = f"{scale}/{channel}" if channel else f"{scale}"
                sd = draws.uniform(f"multiscale_noise/sd{name}", 0.0, largest)
                with tf.control_dependencies([noisier]):  # one scale at a time, to save memory
                    values = draws.normal(f"multiscale_noise/values{name}", sd, shape=points)
                    fields.append(values if scale == 1 else linear_field(values, sizes))
            noisier += (fields[0][..., tf.newaxis] if len(fields) == 1 else tf.stack(fields, 3)) * unit
        return noisier

    return tf.cond(draws.chance("multiscale_noise", probability), noisy, lambda: image)
