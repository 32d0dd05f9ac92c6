"""Writes records as OME-Zarr 0.5, slab by slab."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import zarr

from mtf_imaging.data.records.chunks import METADATA, OURS, clip_chunk
from mtf_imaging.data.records.digesting_store import CODEC, DigestingStore
from mtf_imaging.data.records.facts import Facts
from mtf_imaging.data.records.ome_metadata import (
    CHANNEL,
    IMAGE,
    LABEL_GROUP,
    LABEL_IMAGE,
    LABELS,
    SPACE,
    facts_to_fields,
    grid_affine,
    image_attributes,
    label_image_attributes,
    labels_attributes,
    metadata_digest,
)
from mtf_imaging.data.sampling.grid import Grid
from mtf_imaging.data.sampling.layers import Layers
from mtf_imaging.errors import ShapeError
from mtf_imaging.files.atomic import atomic_folder


class RecordWriter:
    """Writes a record slab by slab; the record gets its final name only after it is complete and verified.

    Use it as a context manager, write every plane of the image and of the labels once, and call `finish`. A slab is a
    range of planes along one axis, which may differ between the image and the labels. Slabs may come in any order, but
    ascending or descending order needs the least memory, because unfinished chunks stay in memory.

    The root group contains the metadata digests of all arrays, whose metadata contains the chunk digests.

    Args:
      path: path of the record; an existing record is replaced when the new one is complete.
      grid: number of voxels along x, y, z.
      num_channels: number of channels in a float32 image; None for Hounsfield units as int16.
      chunk: size of a chunk in voxels along x, y, z; None for 64. Chunks are clipped to the grid.
    """

    def __init__(
        self, path: str | os.PathLike, grid: Grid, num_channels: int | None = None, chunk: Grid | None = None
    ) -> None:
        self._path, self._grid, self._num_channels = Path(path), grid, num_channels
        self._chunk = clip_chunk(chunk, grid)
        self._stack = contextlib.ExitStack()
        self._is_finished = False

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self._store = DigestingStore(stack.enter_context(atomic_folder(self._path)))
            self._create()
            self._stack = stack.pop_all()
        return self

    def _create(self) -> None:
        """Creates the groups and arrays."""
        names = ("", LABELS, LABEL_GROUP)
        self._groups = {name: zarr.create_group(self._store, path=name, zarr_format=3) for name in names}
        dtype, channels = (np.int16, ()) if self._num_channels is None else (np.float32, (self._num_channels,))
        self._arrays = {
            IMAGE: _create_array(self._store, IMAGE, self._grid, self._chunk, dtype, channels),
            LABEL_IMAGE: _create_array(self._store, LABEL_IMAGE, self._grid, self._chunk, np.uint8),
        }
        self._layers = {
            IMAGE: Layers((*self._grid, *channels), dtype, self._chunk, self._emitter(IMAGE)),
            LABEL_IMAGE: Layers(self._grid, np.uint8, self._chunk, self._emitter(LABEL_IMAGE)),
        }

    def _emitter(self, name: str) -> Callable[[int, int, np.ndarray], None]:
        array = self._arrays[name]

        def emit(axis: int, start: int, layer: np.ndarray) -> None:
            first = [0] * layer.ndim
            first[layer.ndim - 1 - axis] = start // array.chunks[layer.ndim - 1 - axis]
            self._store.write_chunks(name, array.chunks, first, layer.T)

        return emit

    def write_image(self, slab: np.ndarray, start: int, axis: int = 0) -> None:
        """Writes planes of the image.

        Args:
          slab: int16 `[x, y, z]` of HU, or float32 `[x, y, z, channels]`, with the sizes of the grid along all axes but
            `axis`.
          start: index of the first plane of the slab.
          axis: the axis along which slabs follow each other, the same in all calls.
        """
        self._layers[IMAGE].add(slab, start, axis)

    def write_labels(self, slab: np.ndarray, start: int, axis: int = 0) -> None:
        """Writes planes of the labels, uint8 `[x, y, z]`; see `write_image`."""
        self._layers[LABEL_IMAGE].add(slab, start, axis)

    def finish(self, facts: Facts) -> None:
        """Writes the facts of the case, verifies the bytes on disk, and gives the record its final name.

        Raises:
          DataError: the bytes on disk differ from the bytes that were written.
          ShapeError: planes are missing.
        """
        if not all(layers.is_complete for layers in self._layers.values()):
            raise ShapeError(f"{self._path}: planes of the record are missing")
        for name, array in self._arrays.items():
            chunks = {key: value for key, value in self._store.digests.items() if key.startswith(f"{name}/c/")}
            prefix = len(name) + 1
            array.update_attributes({OURS: {"digests": {key[prefix:]: chunks[key] for key in sorted(chunks)}}})
        affine = grid_affine(facts, self._grid)
        self._groups[LABELS].update_attributes(labels_attributes())
        self._groups[LABEL_GROUP].update_attributes(label_image_attributes(affine))
        attributes = image_attributes(f"case {facts.key}", affine, self._num_channels is not None)
        metadata = {key: value for key, value in self._store.digests.items() if key.endswith(f"/{METADATA}")}
        attributes[OURS] |= {"record": facts_to_fields(facts), "digests": metadata}
        root = self._groups[""].metadata.to_dict() | {"attributes": attributes}
        attributes[OURS]["digest"] = metadata_digest(root)
        self._groups[""].update_attributes(attributes)
        self._store.verify(self._path)
        self._is_finished = True
        self._stack.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_finished:
            return
        error = error or ShapeError(f"{self._path}: the record was not finished")
        with self._stack:
            raise error


def _create_array(
    store: DigestingStore, name: str, grid: Grid, chunk: Grid, dtype: object, channels: tuple[int, ...] = ()
) -> zarr.Array:
    return zarr.create_array(
        store,
        name=name,
        shape=(*channels, *grid[::-1]),
        chunks=(*(1 for _ in channels), *chunk[::-1]),
        dtype=dtype,
        compressors=CODEC,
        fill_value=0,
        dimension_names=(*(CHANNEL for _ in channels), *SPACE),
        zarr_format=3,
    )
