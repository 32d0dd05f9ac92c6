"""Resamples the channels of an image."""

from collections.abc import Iterator

import numpy as np

from mtf_imaging.data.images.sources import ImageSource, VoxelSource
from mtf_imaging.data.modality import is_ct, value_beyond
from mtf_imaging.data.sampling.grid import Region
from mtf_imaging.data.sampling.regions import PlaneOrder, moved, region_shape
from mtf_imaging.data.sampling.sampling import Spans
from mtf_imaging.data.sampling.slabs import linear_slabs, slab_regions
from mtf_imaging.files.blocks import working_array


def channel_slabs(image: ImageSource, spans: Spans, region: Region) -> Iterator[tuple[Region, np.ndarray]]:
    """Resamples a region of an image linearly, slab by slab.

    Voxels beyond the image are air in a CT and 0 in other channels. Hounsfield units are rounded to integers.

    Args:
      image: the image.
      spans: the voxels of the whole grid along x, y, z, in image coordinates.
      region: a region of the grid.

    Yields:
      The region of a slab in the grid, and its values, a new float32 array `[x, y, z, channels]`. Slabs follow each
      other in `image.order`.
    """
    streams = [
        _in_order(source, value_beyond(name), spans, region, image.order)
        for source, name in zip(image.channels, image.names, strict=True)
    ]
    for parts in zip(*streams, strict=True):
        slab = parts[0][0]
        result = np.empty((*region_shape(slab), len(parts)), np.float32)
        for number, ((_, values), name) in enumerate(zip(parts, image.names, strict=True)):
            result[..., number] = np.rint(values) if is_ct(name) else values
        yield slab, result


def _in_order(
    source: VoxelSource, beyond: int, spans: Spans, region: Region, order: PlaneOrder
) -> Iterator[tuple[Region, np.ndarray]]:
    """Yields the slabs of one channel in an order that may differ from the order in its file."""
    shape = source.geometry.shape
    if source.order == order or not source.is_stream:
        yield from linear_slabs(source.read, shape, spans, region, beyond, order)
        return
    # A compressed file in another axis order would be decompressed from its start for each slab.
    whole = working_array(region_shape(region), np.float32)
    for slab, values in linear_slabs(source.read, shape, spans, region, beyond, source.order):
        whole[moved(slab, region)] = values
    for slab in slab_regions(shape, spans, region, order):
        yield slab, whole[moved(slab, region)]
