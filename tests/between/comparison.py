"""Comparison of the results of all processes with those of one."""

import numpy as np
import tensorflow as tf


def assert_same(group, tolerance, fn, *args):
    """Asserts that a function returns the same in all processes on a collective mesh as here on one device.

    Args:
      group: the `Group`.
      tolerance: the largest difference, relative to the largest value of each array.
      fn: a function of `checks` whose last argument is the mesh implementation.
      *args: its other arguments.
    """
    results, expected = group.run(fn, *args, "collective"), fn(*args, "stacked")
    for number, result in enumerate(results):
        tf.nest.assert_same_structure(result, expected)
        pairs = zip(tf.nest.flatten_with_tuple_paths(result), tf.nest.flatten(expected), strict=True)
        for (path, value), wanted in pairs:
            largest = np.abs(wanted).max(initial=1e-3) if wanted.dtype != bool else 0
            title = f"process {number}: {path}"
            assert value.dtype == wanted.dtype, title
            np.testing.assert_allclose(value, wanted, rtol=0, atol=tolerance * largest, err_msg=title)
