"""Resamples whole volumes, for comparisons with the slabs of the package; see `data.sampling.slabs`."""

import itertools
from collections.abc import Sequence

import numpy as np

from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.sampling.grid import Grid, Region, whole_region
from mtf_imaging.data.sampling.interpolation import axis_order, is_same, multiply, nearest, needed_region, weights
from mtf_imaging.data.sampling.label_region import label_slabs, labels_of_region
from mtf_imaging.data.sampling.regions import ALONG_Z, PlaneOrder, moved, region_shape
from mtf_imaging.data.sampling.sampling import Span, Spans
from mtf_imaging.data.sampling.slabs import Read, linear_slabs, nearest_slabs

_SLAB_BYTES = 32 << 20  # bytes as float32; a few slabs exist at the same time


def resample_linear(data: np.ndarray, spans: Spans, beyond: float = 0.0) -> np.ndarray:
    """Resamples a volume linearly; an axis that shrinks is averaged.

    Args:
      data: `[x, y, z]` or `[x, y, z, channels]`, any numeric type.
      spans: the voxels of the result along x, y, z, in volume coordinates.
      beyond: value of the voxels beyond the volume.

    Returns:
      float32 `[x, y, z]` or `[x, y, z, channels]`, with the sizes of the spans.
    """
    # The axis that shrinks most comes first, and data are converted in slabs, so no float copy of the whole volume
    # exists. The values do not depend on the slabs, because each line of voxels is summed separately.
    order = axis_order(data.shape, spans)
    result = _apply_in_slabs(data, order[:2], spans, across=order[2])
    if not is_same(spans[order[2]], data.shape[order[2]]):
        result = _apply_in_slabs(result, order[2:], spans, across=order[0])
    fill_beyond(result, spans, data.shape, beyond)
    return result


def resample_nearest(labels: np.ndarray, spans: Spans, beyond: int = 0) -> np.ndarray:
    """Resamples labels to the nearest neighbor: each voxel gets the label at its center.

    Args:
      labels: `[x, y, z]`, any numeric type.
      spans: the voxels of the result along x, y, z, in volume coordinates.
      beyond: label of the voxels beyond the volume.

    Returns:
      `[x, y, z]` with the type of `labels` and the sizes of the spans.
    """
    result = labels[np.ix_(*(nearest(n, span) for n, span in zip(labels.shape, spans, strict=True)))]
    fill_beyond(result, spans, labels.shape, beyond)
    return result


def resample_linear_region(
    read: Read, shape: Grid, spans: Spans, region: Region, beyond: float = 0.0, order: PlaneOrder = ALONG_Z
) -> np.ndarray:
    """Returns one region of the `resample_linear` result, bit for bit, and reads only the needed voxels.

    The computation runs in slabs, so it needs little more memory than the result.

    Args:
      read: a function that returns a region of the volume `[x, y, z]`, any numeric type. It is called with regions of
        `source_region(shape, spans, region)`; each plane along the axis of `order` is requested once.
      shape: size of the volume in voxels along x, y, z.
      spans: the voxels of the whole grid along x, y, z, in volume coordinates.
      region: the region of the grid.
      beyond: value of the voxels beyond the volume.
      order: the order in which planes are requested.

    Returns:
      float32 `[x, y, z]` with the shape of the region.
    """
    result = np.empty(region_shape(region), np.float32)
    for slab, values in linear_slabs(read, shape, spans, region, beyond, order):
        result[moved(slab, region)] = values
    return result


def resample_nearest_region(
    read: Read, shape: Grid, spans: Spans, region: Region, beyond: int = 0, order: PlaneOrder = ALONG_Z
) -> np.ndarray:
    """Returns one region of the `resample_nearest` result, and reads only the needed voxels.

    Args:
      read: a function that returns a region of the labels, uint8 `[x, y, z]`; see `resample_linear_region`.
      shape: size of the labels in voxels along x, y, z.
      spans: the voxels of the whole grid along x, y, z, in label coordinates.
      region: the region of the grid.
      beyond: label of the voxels beyond the labels.
      order: the order in which planes are requested.

    Returns:
      uint8 `[x, y, z]` with the shape of the region.
    """
    result = np.empty(region_shape(region), np.uint8)
    for slab, labels in nearest_slabs(read, shape, spans, region, beyond, order):
        result[moved(slab, region)] = labels
    return result


def resample_to_labels(probabilities: np.ndarray, spans: Spans, description: Description = LITS) -> np.ndarray:
    """Resamples probabilities linearly and returns the label of each voxel; see `Description.to_labels`.

    Interpolating before choosing labels gives smooth boundaries; resampled labels would show steps of one grid
    voxel. The computation runs in slabs along z, so it needs little more memory than the labels.

    Args:
      probabilities: `[x, y, z, classes]` on the grid, or one per mask if the description has regions, any float type;
        computed in float32.
      spans: the voxels of the result along x, y, z, in grid coordinates.
      description: the labels or regions that the probabilities represent.

    Returns:
      uint8 `[x, y, z]` with the sizes of the spans: the labels, 0 beyond the grid.
    """
    *grid, classes = probabilities.shape
    shape = tuple(span.size for span in spans)
    labels = np.empty(shape, np.uint8, order="F")  # the order of NIfTI files
    for slab in label_slabs(grid, spans, whole_region(shape), classes):
        needed = needed_region(grid, spans, slab)
        labels[slab] = labels_of_region(probabilities[needed], grid, spans, slab, description)
    return labels


def _apply_in_slabs(data: np.ndarray, axes: Sequence[int], spans: Spans, across: int) -> np.ndarray:
    """Resamples along each of `axes`, in slabs along the axis `across`, into a new array."""
    shape = list(data.shape)
    for axis in axes:
        shape[axis] = spans[axis].size
    result = np.empty(shape, np.float32)
    num_slabs = -(-4 * max(data.size, result.size) // _SLAB_BYTES)
    bounds = np.linspace(0, shape[across], min(num_slabs, shape[across]) + 1).astype(int)
    for start, stop in itertools.pairwise(bounds):
        at = (slice(None),) * across + (slice(start, stop),)
        slab = data[at]
        for axis in axes:
            slab = interpolate(slab, axis, spans[axis])
        result[at] = slab
    return result


def interpolate(data: np.ndarray, axis: int, span: Span) -> np.ndarray:
    """Resamples one axis of `data` to the voxels of a span; returns float32, `data` itself if nothing changes."""
    n = data.shape[axis]
    if is_same(span, n):
        return data.astype(np.float32, copy=False)
    return multiply(weights(n, span), data, axis)


def fill_beyond(result: np.ndarray, spans: Spans, shape: tuple[int, ...], value: float) -> None:
    """Sets the voxels of `result` that do not overlap a volume of `shape` to `value`."""
    for axis, span in enumerate(spans):
        inside, along = span.inside(shape[axis]), np.moveaxis(result, axis, 0)
        along[: inside.start] = value
        along[inside.stop :] = value
