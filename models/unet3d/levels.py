"""Checks of the kernels, pools and filters of U-Net levels, and the strides that follow from them."""

import math

import mtf_imaging as mi

_AXES = ("x", "y", "z")
_POOLS = (1, 2)


def as_tuples(name, sizes, owners, number, depth):
    """Returns sizes along x, y and z, one tuple for each level or pool.

    Args:
      name: name of the parameter, for error messages, such as "UNet3D.pool_sizes".
      sizes: sequences of 3 ints of at least 1.
      owners: "levels" or "pools", for error messages.
      number: number of levels or pools.
      depth: number of levels, for error messages.

    Raises:
      ConfigError: there are more or fewer sequences, or one has other values.
    """
    example = ((3, 3, 3),) if "kernel" in name else ((2, 2, 2),)
    rule = f"it must be None, or have the sizes along x, y and z of all {owners}"
    if not isinstance(sizes, list | tuple):
        raise mi.ConfigError(f"{name} = {sizes!r}: {rule}. Fix: use a tuple such as {example * max(number, 1)}.")
    if len(sizes) != number:
        fix = f"use {number} tuples, or None" if number else "use None"
        raise mi.ConfigError(
            f"{name} = {sizes!r}: {rule}. With UNet3D.depth = {depth}, there are {number}, but it has {len(sizes)}. "
            f"Fix: {fix}."
        )
    for row in sizes:
        is_row = isinstance(row, list | tuple) and len(row) == len(_AXES)
        if not is_row or not all(_is_count(size) for size in row):
            raise mi.ConfigError(
                f"{name} = {sizes!r}: {row!r} must be 3 ints of at least 1, for x, y and z. "
                f"Fix: use sizes such as {example[0]}; for 2-D images, the size along z has no effect."
            )
    return tuple(tuple(row) for row in sizes)


def check_pools(name, sizes):
    """Raises ConfigError if a pool has a size other than 1 and 2."""
    for row in sizes:
        if not all(size in _POOLS for size in row):
            raise mi.ConfigError(
                f"{name} = {sizes!r}: {row!r} has sizes other than 1 and 2. Fix: use 2 along the axes that the pool "
                "halves, and 1 along the others."
            )


def check_filters(name, most):
    """Raises ConfigError if a cap on the number of filters is neither None nor a positive int."""
    if most is not None and not _is_count(most):
        raise mi.ConfigError(
            f"{name} = {most!r}: it must be an int of at least 1. Fix: use None to double the filters at every level."
        )


def cumulative_strides(pools):
    """Returns the strides of all levels along x, y and z, relative to the image.

    >>> cumulative_strides([(2, 2, 1), (2, 2, 2)])
    ((1, 1, 1), (2, 2, 1), (4, 4, 2))

    Args:
      pools: the sizes of the pools along x, y and z.
    """
    return tuple(
        tuple(math.prod(row[axis] for row in pools[:level]) for axis in range(len(_AXES)))
        for level in range(len(pools) + 1)
    )


def _is_count(value):
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
