"""Collects slabs of a volume to whole layers of chunks."""

from collections.abc import Callable, Sequence

import numpy as np

from mtf_imaging.data.sampling.grid import AXIS_NAMES, Grid
from mtf_imaging.errors import ShapeError


class Layers:
    """The planes of a volume, passed on in layers that are one chunk thick.

    Slabs may come in any order and thickness. A layer is passed on when all of its planes exist, and then forgotten.

    Args:
      shape: shape of the volume, `[x, y, z]` or `[x, y, z, channels]`.
      dtype: dtype of the volume.
      chunk: number of voxels of a chunk along x, y, z.
      emit: a function of the axis, the index of a layer's first plane, and the layer.
    """

    def __init__(
        self,
        shape: Sequence[int],
        dtype: np.dtype,
        chunk: Grid,
        emit: Callable[[int, int, np.ndarray], None],
    ) -> None:
        self._shape, self._dtype, self._chunk, self._emit = tuple(shape), np.dtype(dtype), chunk, emit
        self._axis: int | None = None
        self._pending: dict[int, tuple[np.ndarray, np.ndarray]] = {}  # by layer: its planes, and which of them exist
        self._num_emitted = 0

    @property
    def is_complete(self) -> bool:
        """Whether all layers were passed on."""
        return self._axis is not None and self._num_emitted == -(-self._shape[self._axis] // self._chunk[self._axis])

    def add(self, slab: np.ndarray, start: int, axis: int) -> None:
        """Adds planes.

        Args:
          slab: the planes, with the sizes of the volume along all axes but `axis`.
          start: index of the first plane.
          axis: the axis along which slabs follow each other, the same in all calls.

        Raises:
          ShapeError: the slab has another shape, dtype or axis, or a plane was added before.
        """
        self._check(slab, start, axis)
        self._axis, thickness = axis, self._chunk[axis]
        at = start
        while at < start + slab.shape[axis]:
            layer, offset = divmod(at, thickness)
            planes, exists = self._layer(layer)
            stop = min(start + slab.shape[axis], layer * thickness + len(exists))
            if exists[offset : offset + stop - at].any():
                raise ShapeError(f"the planes {at} to {stop - 1} along {AXIS_NAMES[axis]} were written before")
            _along(planes, axis, offset, offset + stop - at)[...] = _along(slab, axis, at - start, stop - start)
            exists[offset : offset + stop - at] = True
            if exists.all():
                del self._pending[layer]
                self._emit(axis, layer * thickness, planes)
                self._num_emitted += 1
            at = stop

    def _layer(self, layer: int) -> tuple[np.ndarray, np.ndarray]:
        if layer not in self._pending:
            assert self._axis is not None
            shape, thickness = list(self._shape), self._chunk[self._axis]
            shape[self._axis] = min(thickness, shape[self._axis] - layer * thickness)
            self._pending[layer] = np.empty(shape, self._dtype), np.zeros(shape[self._axis], bool)
        return self._pending[layer]

    def _check(self, slab: np.ndarray, start: int, axis: int) -> None:
        if self._axis not in (None, axis):
            raise ShapeError(f"slabs along {AXIS_NAMES[self._axis]} cannot continue along {AXIS_NAMES[axis]}")
        expected = list(self._shape)
        expected[axis] = slab.shape[axis] if slab.ndim == len(expected) else 0
        is_inside = start >= 0 and start + expected[axis] <= self._shape[axis]
        if list(slab.shape) != expected or slab.dtype != self._dtype or not is_inside:
            raise ShapeError(
                f"a slab of shape {slab.shape} and type {slab.dtype} at {start} along {AXIS_NAMES[axis]} is not part "
                f"of a volume of shape {self._shape} and type {self._dtype}"
            )


def _along(array: np.ndarray, axis: int, start: int, stop: int) -> np.ndarray:
    return array[(slice(None),) * axis + (slice(start, stop),)]
