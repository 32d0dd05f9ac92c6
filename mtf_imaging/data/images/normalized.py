"""Resamples images that are normalized first, as in nnU-Net."""

from collections.abc import Callable, Sequence

import numpy as np

from mtf_imaging.data.images.sources import ImageSource, VoxelSource, read_slabs
from mtf_imaging.data.intensities.scaling import Scaling
from mtf_imaging.data.sampling.grid import Region
from mtf_imaging.data.sampling.interpolation import nearest
from mtf_imaging.data.sampling.label_region import covered_region
from mtf_imaging.data.sampling.regions import moved, region_shape
from mtf_imaging.data.sampling.sampling import NEAREST, Spans
from mtf_imaging.data.sampling.slabs import linear_slabs
from mtf_imaging.files.blocks import Voxels, working_array


def normalized_region(image: ImageSource, spans: Spans, region: Region, scalings: Sequence[Scaling]) -> Voxels:
    """Returns a region of the input of a network, whose image is normalized before it is resampled.

    As in scikit-image's `resize`, which nnU-Net calls, splines do not exceed the range of the image, or of the slice
    that is resized. To know this range, each channel is read twice. Voxels beyond the image are 0.

    Args:
      image: the image.
      spans: the voxels of the whole grid along x, y, z, in image coordinates.
      region: a region of the grid.
      scalings: the map of each channel's values to network input.

    Returns:
      float32 `[x, y, z, channels]` with the shape of the region.
    """
    result = working_array((*region_shape(region), len(image.channels)), np.float32)
    shape = image.geometry.shape
    for number, (source, scaling) in enumerate(zip(image.channels, scalings, strict=True)):
        bounds_of = _bounds(source, scaling, spans)

        def read(at: Region, source: VoxelSource = source, scaling: Scaling = scaling) -> np.ndarray:
            return scaling.apply(source.read(at))

        for slab, values in linear_slabs(read, shape, spans, region, 0.0, source.order):
            inside = covered_region(shape, spans, slab)
            values[inside] = np.clip(values, *bounds_of(slab))[inside]
            result[(*moved(slab, region), slice(number, number + 1))] = values[..., np.newaxis]
    return result


def _bounds(source: VoxelSource, scaling: Scaling, spans: Spans) -> Callable[[Region], tuple[np.ndarray, np.ndarray]]:
    """Returns a function of a region: the least and the greatest value of a normalized channel, for its voxels."""
    apart = next((axis for axis, span in enumerate(spans) if span.kernel == NEAREST), None)
    axis = source.order.axis if apart is None else apart
    n = source.geometry.shape[axis]
    low, high = np.full(n, np.inf, np.float32), np.full(n, -np.inf, np.float32)
    others = tuple(other for other in range(3) if other != axis)
    for at, values in read_slabs(source):
        normal, planes = scaling.apply(values), at[axis]
        low[planes] = np.minimum(low[planes], normal.min(others))
        high[planes] = np.maximum(high[planes], normal.max(others))

    def of_region(region: Region) -> tuple[np.ndarray, np.ndarray]:
        if apart is None:
            return low.min(), high.max()
        planes = nearest(n, spans[axis])[region[axis]]
        return np.expand_dims(low[planes], others), np.expand_dims(high[planes], others)

    return of_region
