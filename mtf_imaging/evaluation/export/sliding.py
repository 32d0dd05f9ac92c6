"""Exported networks that slide over an image, as `inference.sliding.sliding` does."""

import functools
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from mtf_imaging.evaluation.export.networks import Network
from mtf_imaging.inference.windows import SlidingWindow, Windows


def slide(network: Network, sizes: Sequence[int], window: SlidingWindow, result: tf.TensorSpec) -> Network:
    """Returns a network for images of the given size, which computes one window after the other.

    Args:
      network: the network for one window.
      sizes: voxels of the image along each spatial dimension.
      window: the window.
      result: the shape and dtype of the network's result for one window.

    Raises:
      ConfigError: the window is larger than the image.
    """
    windows = Windows(sizes, window)
    numbers = range(len(windows))
    starts = np.array([[part.start for part in windows.region(number)] for number in numbers], np.int32)
    # Weights of the windows along each axis, [windows, 1, ..., voxels, ..., 1].
    weights = []
    for axis in range(len(sizes)):
        shape = [-1 if other == axis else 1 for other in range(len(sizes) + 1)]
        weights.append(np.stack([windows.weights(number)[axis].reshape(shape) for number in numbers]))

    dtype = result.dtype if result.dtype == tf.float64 else tf.float32

    def predict(image: tf.Tensor) -> tf.Tensor:
        inputs = [*window.size, image.shape[-1]]

        def add(number: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            begin = tf.concat([tf.constant(starts)[number], [0]], 0)
            # In float64, because TensorFlow and NumPy multiply in different orders.
            product = functools.reduce(tf.multiply, [tf.constant(own)[number] for own in weights])
            weighted = tf.cast(network(tf.slice(image, begin, inputs)), dtype) * tf.cast(product, dtype)
            value = tf.slice(total, begin, result.shape) + weighted
            options = {"begin": begin, "end": begin + result.shape, "strides": tf.ones_like(begin)}
            return number + 1, tf.raw_ops.TensorStridedSliceUpdate(input=total, value=value, **options)

        first = tf.constant(0), tf.zeros([*sizes, result.shape[-1]], dtype)
        _, total = tf.while_loop(lambda number, total: number < len(windows), add, first, parallel_iterations=1)
        return total

    return predict
