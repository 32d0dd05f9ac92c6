"""Noise of several scales: of single voxels, as a detector's, and of patches, as artefacts'."""

import tensorflow as tf

from mtf_imaging.data.augmentation.checks import known_sizes
from mtf_imaging.data.augmentation.draws import Draws
from mtf_imaging.data.augmentation.smooth import linear_field


def add_noise(image, largest: float, scales: tuple[int, ...], probability: float, draws: Draws):
    """Adds, with `probability`, Gaussian noise at each of some scales.

    At scale s one value is drawn for s x s x s voxels, and interpolated between. The standard deviation of each is
    drawn evenly from 0..largest; values are cut off at two standard deviations.

    Args:
      image: Tensor[x, y, z, channels] float32.
      largest: standard deviation, in units of the window.
      scales: in voxels.
      probability: of any noise.
      draws: of the sample.

    Returns:
      The image; all channels have the same noise.
    """
    sizes = known_sizes(image)

    def noisy():
        noisier = image
        for scale in scales:
            sd = draws.uniform(f"multiscale_noise/sd{scale}", 0.0, largest)
            points = [max(1, n // scale) for n in sizes]
            with tf.control_dependencies([noisier]):  # one after the other: all at once take the memory of all
                values = draws.normal(f"multiscale_noise/values{scale}", sd, shape=points)
                noise = values if scale == 1 else linear_field(values, sizes)
            noisier += noise[..., tf.newaxis]
        return noisier

    return tf.cond(draws.chance("multiscale_noise", probability), noisy, lambda: image)
