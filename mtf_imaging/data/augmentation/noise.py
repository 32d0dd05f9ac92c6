"""Adds noise at several scales, from single voxels (like detector noise) to patches (like artifacts)."""

import tensorflow as tf

from mtf_imaging.data.augmentation.draws import Draws
from mtf_imaging.data.augmentation.rounding import add
from mtf_imaging.data.augmentation.smooth import axis_taps, linear_taps, spread
from mtf_imaging.data.sampling.grid import Grid, Region


def add_noise(
    image: tf.Tensor,
    largest: float,
    scales: tuple[int, ...],
    probability: float,
    draws: Draws,
    unit: object,
    sizes: Grid,
    region: Region,
) -> tf.Tensor:
    """Adds Gaussian noise at each of `scales`, with `probability`.

    At scale s, one value is drawn for every s x s x s voxels and interpolated linearly. The standard deviation of each
    scale is drawn uniformly from 0..largest. Values are clipped to two standard deviations. Each channel gets its own
    noise.

    Args:
      image: Tensor[x, y, z, channels] float32, a region of the sample.
      largest: largest standard deviation, in units of the channel.
      scales: scales in voxels.
      probability: probability that any noise is added.
      draws: random numbers of the sample.
      unit: the unit of each channel; see `ValueRanges`.
      sizes: size of the sample in voxels along x, y, z.
      region: the voxels of the image.

    Returns:
      The changed image.
    """

    def noisy() -> tf.Tensor:
        noisier = image
        for scale in scales:
            fields = []
            for channel in range(image.shape[3]):
                name = f"{scale}/{channel}" if channel else f"{scale}"
                sd = draws.uniform(f"multiscale_noise/sd{name}", 0.0, largest)
                with tf.control_dependencies([noisier]):  # one scale at a time, to save memory
                    fields.append(_field(f"multiscale_noise/values{name}", sd, scale, draws, sizes, region))
            field = fields[0][..., tf.newaxis] if len(fields) == 1 else tf.stack(fields, 3)
            noisier = add(noisier, field * unit)
        return noisier

    return tf.cond(draws.chance("multiscale_noise", probability), noisy, lambda: image)


def _field(name: str, sd: tf.Tensor, scale: int, draws: Draws, sizes: Grid, region: Region) -> tf.Tensor:
    """Returns the noise at one scale in a region, Tensor[x, y, z]."""
    if scale == 1:
        return draws.normal_values(name, sd, sizes, region)
    points = tuple(max(1, n // scale) for n in sizes)
    taps = axis_taps(linear_taps, region, sizes, points)
    x, y, z = (along.needed for along in taps)
    values = draws.normal_values(name, sd, points, (x, y, z))
    return spread(values, [along.after(part.start) for along, part in zip(taps, (x, y, z))])
