"""The slabs of a segmentation or map to write, checked against its volume."""

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.errors import DataError


def numbered_slabs(
    path: str | Path, slabs: Iterable[np.ndarray], geometry: Geometry
) -> Iterator[tuple[int, np.ndarray]]:
    """Checks the shapes of slabs while a writer reads them.

    Args:
      path: the file to write, for the error message.
      slabs: the labels `[x, y, z]`, or values `[x, y, z, values]`, in canonical axes, in the order of
        `geometry.plane_order`.
      geometry: geometry of the volume.

    Yields:
      Pairs (number of planes before the slab, slab).

    Raises:
      DataError: the slabs together do not have the shape of the volume.
    """
    axis, expected, planes = geometry.plane_order.axis, [*geometry.shape], 0
    for slab in slabs:
        so_far = [*slab.shape[:3]]
        so_far[axis] += planes
        expected[axis] = min(so_far[axis], geometry.shape[axis])
        if so_far != expected:
            raise _wrong_shape(path, tuple(so_far), geometry)
        yield planes, slab
        planes = so_far[axis]
    if planes != geometry.shape[axis]:
        expected[axis] = planes
        raise _wrong_shape(path, tuple(expected), geometry)


def with_type(slabs: Iterable[np.ndarray]) -> tuple[np.dtype, Iterator[np.ndarray]]:
    """Returns the type of slabs, and the slabs; computes the first one."""
    rest = iter(slabs)
    first = next(rest)
    return first.dtype, itertools.chain([first], rest)


def _wrong_shape(path: str | Path, shape: tuple[int, ...], geometry: Geometry) -> DataError:
    what = f"the labels have shape {shape}, but the volume has shape {geometry.shape} (x, y, z)"
    return DataError(f"{path}: {what}. Fix: give labels in the canonical axes of the volume.")
