"""The slabs of a segmentation that is to be written, checked against its volume."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.errors import DataError


def numbered_slabs(
    path: str | Path, slabs: Iterable[np.ndarray], geometry: Geometry
) -> Iterator[tuple[int, np.ndarray]]:
    """Yields (number of planes before it, slab).

    Raises:
      DataError: the slabs together do not have the shape of the volume.
    """
    axis, done, size = geometry.plane_order.axis, 0, geometry.shape[geometry.plane_order.axis]
    for slab in slabs:
        so_far = [*slab.shape]
        so_far[axis] += done
        if [*np.delete(so_far, axis)] != [*np.delete(geometry.shape, axis)] or so_far[axis] > size:
            raise _wrong_shape(path, tuple(so_far), geometry)
        yield done, slab
        done = so_far[axis]
    if done != size:
        raise _wrong_shape(path, (*geometry.shape[:axis], done, *geometry.shape[axis + 1 :]), geometry)


def _wrong_shape(path: str | Path, shape: tuple[int, ...], geometry: Geometry) -> DataError:
    return DataError(
        f"{path}: the labels have shape {shape}, but the volume has shape {geometry.shape} (x, y, z). "
        "Fix: give labels in the canonical axes of the volume."
    )
