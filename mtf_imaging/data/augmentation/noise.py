"""Adds noise at several scales, from single voxels (like detector noise) to patches (like artifacts)."""

import tensorflow as tf

from mtf_imaging.data.augmentation.checks import known_sizes
from mtf_imaging.data.augmentation.draws import Draws
from mtf_imaging.data.augmentation.smooth import linear_field


def add_noise(image, largest: float, scales: tuple[int, ...], probability: float, draws: Draws):
    """Adds Gaussian noise at each of `scales`, with `probability`.

    At scale s, one value is drawn for every s x s x s voxels and interpolated linearly. The standard deviation of each
    scale is drawn uniformly from 0..largest. Values are clipped to two standard deviations.

    Args:
      image: Tensor[x, y, z, channels] float32.
      largest: largest standard deviation, in units of the window.
      scales: scales in voxels.
      probability: probability that any noise is added.
      draws: random numbers of the sample.

    Returns:
      The changed image; all channels get the same noise.
    """
    sizes = known_sizes(image)

    def noisy():
        noisier = image
        for scale in scales:
            sd = draws.uniform(f"multiscale_noise/sd{scale}", 0.0, largest)
            points = [max(1, n // scale) for n in sizes]
            with tf.control_dependencies([noisier]):  # one scale at a time, to save memory
                values = draws.normal(f"multiscale_noise/values{scale}", sd, shape=points)
                noise = values if scale == 1 else linear_field(values, sizes)
            noisier += noise[..., tf.newaxis]
        return noisier

    return tf.cond(draws.chance("multiscale_noise", probability), noisy, lambda: image)
