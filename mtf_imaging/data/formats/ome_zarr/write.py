"""Writes segmentations as OME-Zarr 0.5."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.codecs import BloscCodec

from mtf_imaging.data.formats.label_slabs import numbered_slabs
from mtf_imaging.data.formats.ome_zarr.axes import SPACE
from mtf_imaging.data.formats.ome_zarr.geometry import LEVEL, Frame, ZarrGeometry, canonical_frame
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.sampling.layers import Layers
from mtf_imaging.files.atomic import atomic_folder
from mtf_imaging.files.provenance.provenance import Provenance

_CHUNK = 64  # voxels along each axis


def write_zarr_labels(
    path: str | Path, slabs: Iterable[np.ndarray], geometry: Geometry, provenance: Provenance | None = None
) -> None:
    """Writes a segmentation as an OME-Zarr label image, in the position of its volume.

    The segmentation of an OME-Zarr image has its axes, scale and translation. Other segmentations are stored in
    canonical axes. The write is atomic: the folder gets its name only when it is complete.

    Args:
      path: the folder to write or replace.
      slabs: the labels, uint8 `[x, y, z]` in canonical axes, in slabs of any thickness in the order of
        `geometry.plane_order`.
      geometry: geometry of the volume.
      provenance: the provenance to store in the attribute `mtf_imaging`; None for none.

    Raises:
      DataError: the shapes of the labels and the volume differ.
    """
    path = Path(path)
    is_like_volume = isinstance(geometry, ZarrGeometry)
    frame = geometry.frame if is_like_volume else canonical_frame(geometry.canonical_affine)
    shape = geometry.stored_shape if is_like_volume else geometry.shape
    chunk = tuple(min(_CHUNK, size) for size in shape)
    with atomic_folder(path) as temporary:
        attributes = frame.label_attributes(path.name.split(".")[0], provenance)
        array = _create_array(temporary, attributes, frame, shape, chunk)

        def emit(axis: int, start: int, layer: np.ndarray) -> None:
            region = [slice(None)] * 3
            region[axis] = slice(start, start + layer.shape[axis])
            array[tuple(region[axis] for axis in frame.order)] = layer.transpose(frame.order)

        layers = Layers(shape, np.dtype(np.uint8), chunk, emit)
        axis, is_ascending = geometry.plane_order.axis, geometry.plane_order.ascending
        for start, slab in numbered_slabs(path, slabs, geometry):
            if is_like_volume:  # planes are in increasing order along the last stored axis
                layers.add(geometry.to_stored(slab), start, 2)
            else:
                first = start if is_ascending else geometry.shape[axis] - start - slab.shape[axis]
                layers.add(slab, first, axis)


def _create_array(
    folder: Path, attributes: dict[str, Any], frame: Frame, shape: tuple[int, int, int], chunk: tuple[int, ...]
) -> zarr.Array:
    return zarr.create_group(folder, zarr_format=3, attributes=attributes).create_array(
        LEVEL,
        shape=[shape[axis] for axis in frame.order],
        chunks=[chunk[axis] for axis in frame.order],
        dtype=np.uint8,
        compressors=BloscCodec(cname="zstd", clevel=5, shuffle="noshuffle"),
        fill_value=0,
        dimension_names=[SPACE[axis] for axis in frame.order],
        config={"write_empty_chunks": True},  # so that a lost chunk is noticed
    )
