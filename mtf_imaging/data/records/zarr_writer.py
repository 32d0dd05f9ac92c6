"""Writes records as OME-Zarr 0.5."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import zarr

from mtf_imaging.data.records.chunk_writer import CODEC, write_chunks
from mtf_imaging.data.records.chunks import METADATA, OURS
from mtf_imaging.data.records.digesting_store import DigestingStore
from mtf_imaging.data.records.formats import clip_chunk
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
from mtf_imaging.data.records.record import Facts
from mtf_imaging.data.records.stored import RecordWriter
from mtf_imaging.data.sampling.grid import Grid
from mtf_imaging.data.sampling.layers import Layers
from mtf_imaging.errors import ShapeError
from mtf_imaging.files.atomic import atomic_folder


class ZarrWriter(RecordWriter):
    """Writes a record as a folder; see `create_record`.

    The root group contains the metadata digests of all arrays, whose metadata contains the chunk digests.
    """

    def __init__(self, path: str | os.PathLike, grid: Grid, num_channels: int | None, chunk: Grid | None) -> None:
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
            write_chunks(self._store, name, array.chunks, first, layer.T)

        return emit

    def write_image(self, slab: np.ndarray, start: int, axis: int = 0) -> None:
        """Writes planes of the image; see `RecordWriter`."""
        self._layers[IMAGE].add(slab, start, axis)

    def write_labels(self, slab: np.ndarray, start: int, axis: int = 0) -> None:
        """Writes planes of the labels; see `RecordWriter`."""
        self._layers[LABEL_IMAGE].add(slab, start, axis)

    def finish(self, facts: Facts) -> None:
        """Writes the metadata, verifies all files, and gives the record its final name; see `RecordWriter`."""
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
    store: DigestingStore, name: str, grid: Grid, chunk: Grid, dtype: Any, channels: tuple[int, ...] = ()
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
