"""Grouped convolutions on whole tensors, one group at a time."""

import tensorflow as tf

from mtf_imaging.engine.layout.windows import Window

SIZES = {"x": 12, "y": 8, "z": 6}


def per_dimension(value, num_spatial):
    return (value,) * num_spatial if isinstance(value, int) else tuple(value)


def windows_of(kernel, strides, padding, dilations):
    n = len(kernel)
    return [Window(k, s, d, padding) for k, s, d in zip(kernel, per_dimension(strides, n), per_dimension(dilations, n))]


def reference(x, f, strides, padding, dilations, groups):
    """Computes the windows of stride 1 of each group, and keeps every `stride`-th one.

    TensorFlow does not support strides with dilations, and its SAME padding depends on the stride.
    """
    kernel, sizes = f.shape.as_list()[:-2], x.shape.as_list()[1:-1]
    windows = windows_of(kernel, strides, padding, dilations)
    pads = [list(w.pads(n)) for w, n in zip(windows, sizes, strict=True)]
    if any(map(sum, pads)):
        x = tf.pad(x, [[0, 0], *pads, [0, 0]])
    every = (slice(None), *(slice(None, None, w.stride) for w in windows))
    spread = per_dimension(dilations, len(kernel))
    pairs = zip(tf.split(x, groups, -1), tf.split(f, groups, -1), strict=True)
    return tf.concat([tf.nn.convolution(x, f, 1, "VALID", dilations=spread)[every] for x, f in pairs], -1)


def shapes(num_spatial, kernel, channels, groups, multiplier, out="filters"):
    """Returns the shapes of an input with `channels`, and of a filter with `multiplier` times as many outputs."""
    sizes = ",".join(f"{name}:{size}" for name, size in list(SIZES.items())[:num_spatial])
    taps = ",".join(f"f{name}:{k}" for name, k in zip("xyz", kernel))
    return {
        "x": f"batch:2,{sizes},channels:{channels}",
        "f": f"{taps},per_group:{channels // groups},{out}:{channels * multiplier}",
    }
