"""Comparison of the results of all processes with those of one."""

import dataclasses

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.layout import Layout


def assert_same(group, tolerance, fn, *args):
    """Asserts that a function returns the same in all processes on a collective mesh as here on one device, at once.

    Args:
      group: the `Group`.
      tolerance: the largest difference, relative to the largest value of each array.
      fn: a function of `checks` whose last argument is the mesh implementation.
      *args: its other arguments.
    """
    results = group.run(fn, *args, "collective")
    at_once = [dataclasses.replace(arg, sequential=()) if isinstance(arg, Layout) else arg for arg in args]
    expected = fn(*at_once, "stacked")
    for number, result in enumerate(results):
        tf.nest.assert_same_structure(result, expected)
        for (path, value), (_, wanted) in zip(_arrays(result), _arrays(expected), strict=True):
            largest = np.abs(wanted).max(initial=1e-3) if wanted.dtype != bool else 0
            title = f"process {number}: {path}"
            assert value.dtype == wanted.dtype, title
            np.testing.assert_allclose(value, wanted, rtol=0, atol=tolerance * largest, err_msg=title)


def _arrays(results, path=""):
    """Yields (path, array) for each array of nested dicts and sequences."""
    if isinstance(results, dict):
        for name in sorted(results):
            yield from _arrays(results[name], f"{path}/{name}")
    elif isinstance(results, list | tuple):
        for number, value in enumerate(results):
            yield from _arrays(value, f"{path}/{number}")
    else:
        yield path, np.asarray(results)
