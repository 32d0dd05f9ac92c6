"""Resamples a region of a grid slab by slab, from a source that reads regions of the volume.

Coordinates follow the half-pixel convention (`half_pixel_centers=True` in TensorFlow). A volume of n voxels along an
axis covers [0, n). Voxel i covers [i, i + 1), and its center is i + 0.5. A `Span` of g voxels over the same field of
view has the centers (j + 0.5) n / g.

Linear resampling multiplies by one sparse matrix per axis, and the axis that shrinks most comes first. If an axis
shrinks, the kernel of linear interpolation is widened to the size of a result voxel, as in
`tf.image.resize(..., antialias=True)`. Plain interpolation from 512 to 64 would read 2 of 8 voxels, keep all of the
noise and miss small lesions. Voxels that overlap the volume are interpolated, with the outermost voxel of the volume
repeated at the border. Voxels beyond the volume get a constant value.

The values do not depend on the slabs, because each line of voxels is summed separately and in the same order.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np

from mtf_imaging.data.sampling.grid import Grid, Region
from mtf_imaging.data.sampling.interpolation import axis_order, interpolate_region, nearest, needed_region
from mtf_imaging.data.sampling.regions import ALONG_Z, PlaneOrder, moved, overlap, region_shape, with_axis
from mtf_imaging.data.sampling.sampling import Spans

Read = Callable[[Region], np.ndarray]

_SLAB_BYTES = 32 << 20  # bytes as float32; a few slabs exist at the same time


def source_region(shape: Grid, spans: Spans, region: Region) -> Region:
    """Returns the voxels of a volume that a region of a grid needs for linear or nearest-neighbor interpolation.

    >>> from mtf_imaging.data.sampling.sampling import whole_field
    >>> source_region((8, 8, 8), whole_field((8, 8, 8), (4, 4, 4)), (slice(0, 1), slice(1, 3), slice(0, 4)))
    (slice(0, 3, None), slice(1, 7, None), slice(0, 8, None))

    Args:
      shape: size of the volume in voxels along x, y, z.
      spans: the voxels of the grid along x, y, z, in volume coordinates.
      region: a region of the grid.

    Returns:
      The region of the volume. It is empty if the region of the grid lies beyond the volume.
    """
    return needed_region(shape, spans, _inside(shape, spans, region))


def slab_regions(shape: Grid, spans: Spans, region: Region, order: PlaneOrder) -> Iterator[Region]:
    """Yields the regions of the slabs in which a region of a grid is resampled; see `linear_slabs`."""
    return order.parts(region, _thickness(shape, spans, region, order.axis))


def linear_slabs(
    read: Read, shape: Grid, spans: Spans, region: Region, beyond: float = 0.0, order: PlaneOrder = ALONG_Z
) -> Iterator[tuple[Region, np.ndarray]]:
    """Resamples a region of a grid linearly, slab by slab.

    Args:
      read: a function that returns a region of the volume `[x, y, z]`, any numeric type. Each plane is requested once,
        in the order of `order`.
      shape: size of the volume in voxels along x, y, z.
      spans: the voxels of the grid along x, y, z, in volume coordinates.
      region: a region of the grid.
      beyond: value of the voxels beyond the volume.
      order: the order of the slabs.

    Yields:
      The region of a slab in the grid, and its values, a new float32 array `[x, y, z]`.
    """
    axes = axis_order(shape, spans)

    def resample(source: np.ndarray, origin: Region, covered: Region) -> np.ndarray:
        return interpolate_region(source, shape, spans, covered, axes)

    return _slabs(resample, read, shape, spans, region, np.float32(beyond), order)


def nearest_slabs(
    read: Read, shape: Grid, spans: Spans, region: Region, beyond: int = 0, order: PlaneOrder = ALONG_Z
) -> Iterator[tuple[Region, np.ndarray]]:
    """Resamples labels to the nearest neighbor, slab by slab: each voxel gets the label at its center.

    Args:
      read: a function that returns a region of the labels, uint8 `[x, y, z]`; see `linear_slabs`.
      shape: size of the labels in voxels along x, y, z.
      spans: the voxels of the grid along x, y, z, in label coordinates.
      region: a region of the grid.
      beyond: label of the voxels beyond the labels.
      order: the order of the slabs.

    Yields:
      The region of a slab in the grid, and its labels, a new uint8 array `[x, y, z]`.
    """

    def resample(source: np.ndarray, origin: Region, covered: Region) -> np.ndarray:
        picks = (
            nearest(n, span)[at.start : at.stop] - first.start
            for n, span, at, first in zip(shape, spans, covered, origin, strict=True)
        )
        return source[np.ix_(*picks)]

    return _slabs(resample, read, shape, spans, region, np.uint8(beyond), order)


def _slabs(
    resample: Callable[[np.ndarray, Region, Region], np.ndarray],
    read: Read,
    shape: Grid,
    spans: Spans,
    region: Region,
    beyond: np.generic,
    order: PlaneOrder,
) -> Iterator[tuple[Region, np.ndarray]]:
    """Yields the slabs of a region; `resample` takes (volume voxels, their region, grid region)."""
    read_once = _ReadOnce(read, order)
    for slab in slab_regions(shape, spans, region, order):
        result = np.full(region_shape(slab), beyond)
        covered = _inside(shape, spans, slab)
        if result[moved(covered, slab)].size:
            source = source_region(shape, spans, slab)
            result[moved(covered, slab)] = resample(read_once(source), source, covered)
        yield slab, result


def _inside(shape: Grid, spans: Spans, region: Region) -> Region:
    """Returns the part of a grid region that overlaps the volume."""
    return tuple(overlap(span.inside(n), at) for n, span, at in zip(shape, spans, region, strict=True))


def slab_bytes(shape: Grid, spans: Spans, region: Region, axis: int) -> int:
    """Returns the float32 bytes of a slab along an axis: of its source or its result, whichever is larger."""
    plane = _plane_bytes(shape, spans, region, axis)
    return math.ceil(_thickness(shape, spans, region, axis) * plane)


def _thickness(shape: Grid, spans: Spans, region: Region, axis: int) -> int:
    """Returns the number of grid planes whose source and result fit into a slab."""
    return max(1, int(_SLAB_BYTES // _plane_bytes(shape, spans, region, axis)))


def _plane_bytes(shape: Grid, spans: Spans, region: Region, axis: int) -> float:
    """Returns the float32 bytes of one grid plane or of its source."""
    source, result = region_shape(source_region(shape, spans, region)), region_shape(region)
    plane = math.prod(max(source[other], result[other]) for other in range(3) if other != axis)
    return 4 * max(1, plane) * max(1.0, spans[axis].step)


class _ReadOnce:
    """Reads the regions of consecutive slabs, which may overlap, and requests each plane once."""

    def __init__(self, read: Read, order: PlaneOrder) -> None:
        self._read, self._order = read, order
        self._kept: tuple[Region, np.ndarray] | None = None

    def __call__(self, region: Region) -> np.ndarray:
        axis = self._order.axis
        again = self._again(region)
        at = region[axis]
        if again is None:
            voxels = self._read(region)
        else:
            shared, old = again
            new = slice(shared.stop, at.stop) if self._order.ascending else slice(at.start, shared.start)
            parts = [old] if new.start == new.stop else [old, self._read(with_axis(region, axis, new))]
            voxels = np.concatenate(parts if self._order.ascending else parts[::-1], axis)
        self._kept = region, voxels
        return voxels

    def _again(self, region: Region) -> tuple[slice, np.ndarray] | None:
        """Returns the planes of a region that were read for the previous slab, or None."""
        if self._kept is None:
            return None
        axis = self._order.axis
        origin, voxels = self._kept
        shared = overlap(origin[axis], region[axis])
        if shared.start == shared.stop or with_axis(origin, axis, shared) != with_axis(region, axis, shared):
            return None
        return shared, voxels[moved(with_axis(region, axis, shared), origin)]
