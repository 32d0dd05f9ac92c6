"""Collects the slabs of a volume into whole layers of chunks."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from mtf_imaging.data.sampling.grid import AXIS_NAMES, Grid
from mtf_imaging.errors import ShapeError


class Layers:
    """Passes on the planes of a volume in layers that are one chunk thick.

    Slabs may come in any order and thickness. A layer is passed on and then forgotten when all of its planes have
    arrived.

    Args:
      shape: shape of the volume, `[x, y, z]` or `[x, y, z, channels]`.
      dtype: dtype of the volume.
      chunk: size of a chunk in voxels along x, y, z.
      emit: a function that is called with the axis, the index of the layer's first plane, and the layer.
    """

    def __init__(
        self, shape: Sequence[int], dtype: npt.DTypeLike, chunk: Grid, emit: Callable[[int, int, np.ndarray], None]
    ) -> None:
        self._shape, self._dtype, self._chunk, self._emit = tuple(shape), np.dtype(dtype), chunk, emit
        self._axis: int | None = None
        self._exists = np.zeros(0, bool)  # whether each plane along the axis has arrived
        self._pending: dict[int, np.ndarray] = {}  # unfinished layers by the index of their first plane

    @property
    def is_complete(self) -> bool:
        """Whether all layers were passed on."""
        return self._axis is not None and bool(self._exists.all())

    def add(self, slab: np.ndarray, start: int, axis: int) -> None:
        """Adds planes.

        Args:
          slab: the planes, with the sizes of the volume along all axes but `axis`.
          start: index of the first plane.
          axis: the axis along which slabs follow each other, the same in all calls.

        Raises:
          ShapeError: the slab has the wrong shape, dtype or axis, or a plane was added twice.
        """
        self._check(slab, start, axis)
        if self._axis is None:
            self._axis, self._exists = axis, np.zeros(self._shape[axis], bool)
        stop, thickness = start + slab.shape[axis], self._chunk[axis]
        if self._exists[start:stop].any():
            what = f"some of the planes {start} to {stop - 1} along {AXIS_NAMES[axis]} were written before"
            raise ShapeError(f"{what}. Fix: write each plane once.")
        self._exists[start:stop] = True
        for first in range(start // thickness * thickness, stop, thickness):
            low, high = max(start, first), min(stop, first + thickness)
            if first not in self._pending:
                self._pending[first] = self._empty_layer(axis, first)
            _along(self._pending[first], axis, low - first, high - first)[...] = _along(
                slab, axis, low - start, high - start
            )
            if self._exists[first : first + thickness].all():
                self._emit(axis, first, self._pending.pop(first))

    def _empty_layer(self, axis: int, first: int) -> np.ndarray:
        shape = list(self._shape)
        shape[axis] = min(self._chunk[axis], shape[axis] - first)
        return np.empty(shape, self._dtype)

    def _check(self, slab: np.ndarray, start: int, axis: int) -> None:
        if self._axis not in (None, axis):
            what = f"slabs along {AXIS_NAMES[self._axis]} cannot continue along {AXIS_NAMES[axis]}"
            raise ShapeError(f"{what}. Fix: use one axis.")
        expected = list(self._shape)
        expected[axis] = slab.shape[axis] if slab.ndim == len(expected) else 0
        is_inside = start >= 0 and start + expected[axis] <= self._shape[axis]
        if list(slab.shape) != expected or slab.dtype != self._dtype or not is_inside:
            what = f"a slab of shape {slab.shape} and type {slab.dtype} at {start} along {AXIS_NAMES[axis]}"
            volume = f"a volume of shape {self._shape} and type {self._dtype}"
            raise ShapeError(f"{what} is not part of {volume}. Fix: write planes of the grid.")


def _along(array: np.ndarray, axis: int, start: int, stop: int) -> np.ndarray:
    return array[(slice(None),) * axis + (slice(start, stop),)]
