"""Reads whole images and masks."""

import contextlib
import dataclasses
from pathlib import Path

import numpy as np

from mtf_imaging.data.description.description import LITS
from mtf_imaging.data.formats.all_formats import write_label_slabs
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.images.sources import ImageSource, StoredSource
from mtf_imaging.data.images.spacing_table import NO_TABLE
from mtf_imaging.data.reading.open_sources import open_image_source, open_mask, open_segmentation, open_volume
from mtf_imaging.data.sampling.grid import whole_region


@dataclasses.dataclass(frozen=True)
class Image:
    """An image or a mask in canonical axes, with an array `[x, y, z]` for each channel."""

    channels: tuple[np.ndarray, ...]
    names: tuple[str, ...]
    geometry: Geometry
    path: Path

    @property
    def hu(self) -> np.ndarray:
        """The values of a CT, int16."""
        return self.channels[0]

    labels = hu


def _whole(source: ImageSource) -> Image:
    """Reads all voxels of an image, and checks and closes its files."""
    with contextlib.closing(source):
        channels = tuple(source.read(whole_region(source.geometry.shape)))
        source.check()
    return Image(channels, source.names, source.geometry, source.path)


def _whole_mask(source: StoredSource) -> Image:
    return _whole(ImageSource((source,), ("labels",), source.geometry, source.path))


def read_volume(path, known=NO_TABLE) -> Image:
    """Reads a CT."""
    return _whole(open_volume(path, known))


def read_image(paths, description, known=NO_TABLE) -> Image:
    """Reads an image of any modality."""
    return _whole(open_image_source(paths, description, known))


def read_mask(path, volume, description=LITS) -> Image:
    """Reads the segmentation of a volume."""
    return _whole_mask(open_mask(path, volume, description))


def read_labels(path, volume, description=LITS) -> np.ndarray:
    """Reads the labels of a volume, uint8 `[x, y, z]`."""
    return read_mask(path, volume, description).labels


def read_segmentation(path, known=NO_TABLE, description=LITS) -> Image:
    """Reads a segmentation without its volume; if its header lacks the geometry, the axes are read as RAS."""
    return _whole_mask(open_segmentation(path, known, description))


def write_labels(path, labels, geometry) -> None:
    """Writes a segmentation in the geometry of its volume."""
    write_label_slabs(path, [labels.astype(np.uint8, copy=False)], geometry)
