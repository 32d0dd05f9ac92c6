"""Images that are made up while they are asked for: one texture of four on a disc, in colours of its own."""

import math

import gin
import tensorflow as tf

import mtf_imaging as mi

CLASSES = ("across", "upright", "slanted", "checked")


@gin.configurable(module="resnet")
class GeneratedImages:
    """A data set of made-up images, without end: each is drawn once, so accuracy in training is that on unseen ones.

    An image is a disc of random place, size, colours and phase, under noise; its label says how the disc is striped.
    Image i depends on the seed and i alone, whatever the batch size and wherever a run began.

    Attributes:
      height: pixels.
      width: pixels.
      noise: standard deviation of the noise; colours are from 0 to 1.
    """

    def __init__(self, height=64, width=64, noise=0.2):
        for name, value in (("height", height), ("width", width)):
            if not isinstance(value, int) or value < 8:
                raise mi.ConfigError(f"GeneratedImages.{name} = {value!r}: it must be a number of pixels, at least 8.")
        if not noise >= 0:
            raise mi.ConfigError(f"GeneratedImages.noise = {noise!r}: it must be 0, for none, or more.")
        self.height, self.width, self.noise = height, width, noise

    def sizes(self, data_dir):
        """Pixels along height and width; the folder is not looked at."""
        return self.height, self.width

    def batches(self, data_dir, *, batch_size, sizes, seed, start_step):
        """Batches without end, see `mtf_imaging.training.data_set.DataSet`; the folder is not looked at.

        Yields:
          "image": float32 [batch_size, height, width, 3]; "labels": int32 [batch_size]; "cases": as "17-slanted".
        """
        images = tf.data.Dataset.range(start_step * batch_size, tf.int64.max)
        images = images.map(lambda index: (index, *self._draw(seed, index, sizes)), num_parallel_calls=2)  # in order
        for indices, image, labels in images.batch(batch_size, drop_remainder=True).prefetch(2):
            cases = [f"{index}-{CLASSES[label]}" for index, label in zip(indices.numpy(), labels.numpy())]
            yield {"image": image, "labels": labels, "cases": cases}

    def _draw(self, seed, index, sizes):
        """Image `index`: float32 [height, width, 3], and its label, int32 []."""
        height, width = sizes
        # Philox, by name, draws the same on every device.
        number = tf.random.stateless_uniform([11], [seed, index], alg="philox")
        noise = tf.random.stateless_normal([height, width, 3], [seed, -1 - index], alg="philox")
        label = tf.cast(number[0] * len(CLASSES), tf.int32)
        down, right = tf.meshgrid(tf.range(height, dtype=tf.float32), tf.range(width, dtype=tf.float32), indexing="ij")
        side = float(min(sizes))
        centre = (0.35 + 0.3 * number[1]) * height, (0.35 + 0.3 * number[2]) * width
        disc = tf.sqrt((down - centre[0]) ** 2 + (right - centre[1]) ** 2) < (0.2 + 0.15 * number[3]) * side

        def bars(along, phase):
            return tf.cast(tf.sin(2 * math.pi * (along / (4.0 + 3.0 * number[4]) + phase)) > 0, tf.float32)

        across, upright = bars(down, number[5]), bars(right, number[6])
        texture = tf.stack([across, upright, bars((down + right) / 2**0.5, number[5]), tf.abs(across - upright)])[label]
        dark = 0.5 * number[7:10]  # of any hue
        image = tf.where(disc[..., tf.newaxis], dark + 0.5 * texture[..., tf.newaxis], number[10])
        return image + self.noise * noise, label
