"""Writes maps of a volume as OME-Zarr 0.5."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.codecs import BloscCodec

from mtf_imaging.data.formats.label_slabs import numbered_slabs
from mtf_imaging.data.formats.ome_zarr.axes import SPACE
from mtf_imaging.data.formats.ome_zarr.geometry import LEVEL, Frame, ZarrGeometry, canonical_frame
from mtf_imaging.data.formats.ome_zarr.metadata import OURS
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.sampling.layers import Layers
from mtf_imaging.files.atomic import atomic_folder
from mtf_imaging.files.provenance.provenance import Provenance

_CHUNK = 64  # voxels along each axis


def write_zarr_maps(
    path: str | Path,
    slabs: Iterable[np.ndarray],
    geometry: Geometry,
    names: Sequence[str],
    provenance: Provenance | None = None,
) -> None:
    """Writes maps as a float32 OME-Zarr image, in the position of their volume; see `write_map_slabs`.

    Args:
      path: the folder to write or replace.
      slabs: the values, float32 `[x, y, z, maps]`.
      geometry: geometry of the volume.
      names: the names of the maps, which the attribute `maps` of `mtf_imaging` stores.
      provenance: the provenance to store in the attribute `mtf_imaging`; None for none.
    """
    path = Path(path)
    is_like_volume = isinstance(geometry, ZarrGeometry)
    frame = geometry.frame if is_like_volume else canonical_frame(geometry.canonical_affine)
    shape = geometry.stored_shape if is_like_volume else geometry.shape
    chunk, is_single = tuple(min(_CHUNK, size) for size in shape), len(names) == 1
    with atomic_folder(path) as temporary:
        array = zarr.create_group(
            temporary, zarr_format=3, attributes=_attributes(frame, path.name.split(".")[0], names, provenance)
        ).create_array(
            LEVEL,
            shape=[*([] if is_single else [len(names)]), *(shape[axis] for axis in frame.order)],
            chunks=[*([] if is_single else [1]), *(chunk[axis] for axis in frame.order)],
            dtype=np.float32,
            compressors=BloscCodec(cname="zstd", clevel=5, shuffle="shuffle"),
            fill_value=0,
            dimension_names=[*([] if is_single else ["c"]), *(SPACE[axis] for axis in frame.order)],
            config={"write_empty_chunks": True},  # so that a lost chunk is noticed
        )

        def emit(axis: int, start: int, layer: np.ndarray) -> None:
            region = [slice(None)] * 3
            region[axis] = slice(start, start + layer.shape[axis])
            place, values = tuple(region[axis] for axis in frame.order), layer.transpose(3, *frame.order)
            if is_single:
                array[place] = values[0]
            else:
                array[(slice(None), *place)] = values

        layers = Layers((*shape, len(names)), np.dtype(np.float32), chunk, emit)
        axis, is_ascending = geometry.plane_order.axis, geometry.plane_order.ascending
        for start, slab in numbered_slabs(path, slabs, geometry):
            if is_like_volume:
                layers.add(geometry.to_stored(slab), start, 2)
            else:
                first = start if is_ascending else geometry.shape[axis] - start - slab.shape[axis]
                layers.add(slab, first, axis)


def _attributes(frame: Frame, name: str, names: Sequence[str], provenance: Provenance | None) -> dict[str, Any]:
    """Returns the attributes of an image of maps, derived from the attributes of a label image in the same position."""
    attributes = frame.label_attributes(name, provenance)
    del attributes["ome"]["image-label"]
    if len(names) > 1:
        (multiscale,) = attributes["ome"]["multiscales"]
        multiscale["axes"].insert(0, {"name": "c", "type": "channel"})
        for dataset in multiscale["datasets"]:
            for step in dataset.get("coordinateTransformations", ()):
                step[step["type"]].insert(0, 1.0 if step["type"] == "scale" else 0.0)
    attributes[OURS] = {**attributes.get(OURS, {}), "maps": [*names]}
    return attributes
