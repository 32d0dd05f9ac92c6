"""Estimates the memory for converting one case from its header."""

import math

from mtf_imaging.data.description.description import Description
from mtf_imaging.data.records.formats import TFRECORD, clip_chunk
from mtf_imaging.data.records.manifest import voxel_bytes
from mtf_imaging.data.sampling.grid import Grid, whole_region
from mtf_imaging.data.sampling.sampling import Spans
from mtf_imaging.data.sampling.slabs import slab_bytes

# Measured by benchmarks/whole_volume.py. The first one includes the histograms of the statistics.
IMPORT_BYTES, _TENSORFLOW_BYTES = 200 << 20, 600 << 20
# In slabs of one float32 channel. All channels: source, resampled, and part of the result. One channel
# at a time: the intermediate result.
_SLAB_COPIES_OF_CHANNEL, _SLAB_COPIES = 3, 1
_LAYER_COPIES = 2  # a layer of chunks, and the slab or chunks being encoded
_TFRECORD_COPIES = 3  # the record, its serialized form, and the copy that is written


def case_bytes(
    shape: Grid, spans: Spans, description: Description, record_format: str, chunk: Grid | None = None
) -> int:
    """Returns the memory in bytes that a process needs to convert one case.

    Args:
      shape: size of the volume in voxels along x, y, z.
      spans: the voxels of the record along x, y, z, in volume coordinates.
      description: the channels of the case.
      record_format: the file format of the record.
      chunk: size of a chunk in voxels along x, y, z; None for the default.
    """
    grid = tuple(span.size for span in spans)
    copies = _SLAB_COPIES_OF_CHANNEL * len(description.channels) + _SLAB_COPIES
    slabs = copies * max(slab_bytes(shape, spans, whole_region(grid), axis) for axis in range(3))
    if record_format == TFRECORD:
        return IMPORT_BYTES + _TENSORFLOW_BYTES + slabs + _TFRECORD_COPIES * math.prod(grid) * voxel_bytes(description)
    chunk = clip_chunk(chunk, grid)
    layer = max(math.prod(grid) // size * thick for size, thick in zip(grid, chunk, strict=True))
    return IMPORT_BYTES + slabs + _LAYER_COPIES * layer * voxel_bytes(description)
