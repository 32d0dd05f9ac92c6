"""Writes segmentations and maps as OME-Zarr 0.5. The writes are atomic: a folder gets its name when it is complete."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mtf_imaging.data.formats.label_slabs import numbered_slabs, with_type
from mtf_imaging.data.formats.ome_zarr.geometry import Frame, ZarrGeometry, canonical_frame
from mtf_imaging.data.formats.ome_zarr.multiscale import OURS, SPACE
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.sampling.layers import Layers
from mtf_imaging.files.atomic import atomic_folder
from mtf_imaging.files.provenance.provenance import Provenance

_CHUNK = 64  # voxels along each axis, a power of 2, so that a layer of chunks begins with a voxel of every level


def write_zarr_labels(
    path: Path, slabs: Iterable[np.ndarray], geometry: Geometry, provenance: Provenance | None = None
) -> None:
    """Writes a segmentation as an OME-Zarr label image, in the position of its volume; see `write_label_slabs`.

    The segmentation of an OME-Zarr image has its axes, scale and translation. Other segmentations are stored in
    canonical axes. The provenance is stored in the attribute `mtf_imaging`.
    """
    attributes = _attributes(path, geometry, provenance)
    dtype, slabs = with_type(slabs)
    _write(path, (slab[..., np.newaxis] for slab in slabs), geometry, attributes, None, dtype)


def write_zarr_maps(
    path: Path,
    slabs: Iterable[np.ndarray],
    geometry: Geometry,
    names: Sequence[str],
    provenance: Provenance | None = None,
) -> None:
    """Writes maps as a float32 OME-Zarr image, in the position of their volume; see `write_map_slabs`.

    The attribute `maps` of `mtf_imaging` contains the names. The first axis of several maps is a channel axis.
    """
    attributes = _attributes(path, geometry, provenance)
    del attributes["ome"]["image-label"]
    count = len(names) if len(names) > 1 else None
    if count:
        (multiscale,) = attributes["ome"]["multiscales"]
        multiscale["axes"].insert(0, {"name": "c", "type": "channel"})
        for dataset in multiscale["datasets"]:
            for step in dataset.get("coordinateTransformations", ()):
                step[step["type"]].insert(0, 1.0 if step["type"] == "scale" else 0.0)
    attributes[OURS] = {**attributes.get(OURS, {}), "maps": [*names]}
    _write(path, slabs, geometry, attributes, count, np.float32)


def _attributes(path: Path, geometry: Geometry, provenance: Provenance | None) -> dict[str, Any]:
    levels = 1 + sum(max(geometry.shape) > _CHUNK << number for number in range(_CHUNK.bit_length() - 1))
    return _frame(geometry).label_attributes(path.name.split(".")[0], levels, provenance)


def _frame(geometry: Geometry) -> Frame:
    return geometry.frame if isinstance(geometry, ZarrGeometry) else canonical_frame(geometry.canonical_affine)


def _write(
    path: Path,
    slabs: Iterable[np.ndarray],
    geometry: Geometry,
    attributes: dict[str, Any],
    count: int | None,
    dtype: npt.DTypeLike,
) -> None:
    """Writes slabs `[x, y, z, values]` as arrays with or without a channel axis.

    Each level has every second voxel of the level before.

    Args:
      path: the folder to write or replace.
      slabs: the slabs, in canonical axes and in the order of `geometry.plane_order`.
      geometry: geometry of the volume.
      attributes: the attributes of the image.
      count: the number of channels; None for no channel axis.
      dtype: the type of the values.
    """
    import zarr  # takes time to import
    from zarr.codecs import BloscCodec

    order, is_like_volume = _frame(geometry).order, isinstance(geometry, ZarrGeometry)
    shape = geometry.stored_shape if is_like_volume else geometry.shape
    chunk = tuple(min(_CHUNK, size) for size in shape)
    with atomic_folder(path) as temporary:
        group, arrays = zarr.create_group(temporary, zarr_format=3, attributes=attributes), {}
        for number, dataset in enumerate(attributes["ome"]["multiscales"][0]["datasets"]):
            sizes = [-(-size >> number) for size in shape]
            arrays[1 << number] = group.create_array(
                dataset["path"],
                shape=[*([count] if count else []), *(sizes[axis] for axis in order)],
                chunks=[*([1] if count else []), *(min(_CHUNK, sizes[axis]) for axis in order)],
                dtype=dtype,
                compressors=BloscCodec(cname="zstd", clevel=5, shuffle="noshuffle" if dtype == np.uint8 else "shuffle"),
                fill_value=0,
                dimension_names=[*(["c"] if count else []), *(SPACE[axis] for axis in order)],
                config={"write_empty_chunks": True},  # so that a lost chunk is noticed
            )

        def emit(axis: int, start: int, layer: np.ndarray) -> None:
            for step, array in arrays.items():
                values, region = layer[::step, ::step, ::step].transpose(3, *order), [slice(None)] * 3
                first = start // step
                region[axis] = slice(first, first + -(-layer.shape[axis] // step))
                place = [region[axis] for axis in order]
                array[(slice(None), *place) if count else tuple(place)] = values if count else values[0]

        layers = Layers((*shape, count or 1), dtype, chunk, emit)
        axis, is_ascending = geometry.plane_order.axis, geometry.plane_order.ascending
        for start, slab in numbered_slabs(path, slabs, geometry):
            if is_like_volume:  # planes are in increasing order along the last stored axis
                layers.add(geometry.to_stored(slab), start, 2)
            else:
                first = start if is_ascending else geometry.shape[axis] - start - slab.shape[axis]
                layers.add(slab, first, axis)
