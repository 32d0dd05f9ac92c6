"""Reads images of any modality with any number of channels."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mtf_imaging.data.description.description import Description
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.images.sources import read_whole
from mtf_imaging.data.images.spacing_table import NO_TABLE, SpacingTable
from mtf_imaging.data.reading.images import read_geometry
from mtf_imaging.data.reading.open_sources import open_image_source


@dataclasses.dataclass(frozen=True)
class Image:
    """An image in canonical axes.

    Attributes:
      channels: one array `[x, y, z]` per channel: int16 Hounsfield units of a CT, or float32 values of other
        modalities.
      names: the channel names.
      geometry: geometry of the first file.
      path: path of the first file.
    """

    channels: tuple[np.ndarray, ...]
    names: tuple[str, ...]
    geometry: Geometry
    path: Path


def read_image(paths: Sequence[str | Path], description: Description, known: SpacingTable = NO_TABLE) -> Image:
    """Reads the channels of an image.

    Args:
      paths: one file per channel, or one file with the channels along the fourth axis.
      description: the channel names.
      known: voxel sizes of files whose headers lack them, by the name of the first file.

    Returns:
      The image. For lost geometry and repairs of Hounsfield units, see `read_volume`. If a file without a CT has lost
      its geometry, its axes are read as RAS. In channels of other modalities, NaN and infinite voxels become 0, with a
      warning.

    Raises:
      DataError: a file cannot be used, the number of channels differs from the description, or the grids or affines of
        two channels differ.
    """
    source = open_image_source(paths, description, known)
    return Image(tuple(map(read_whole, source.channels)), source.names, source.geometry, source.path)


def read_image_geometry(
    paths: Sequence[str | Path], description: Description, known: SpacingTable = NO_TABLE
) -> Geometry:
    """Reads only the header of the first file of an image, for its shape and spacing.

    Raises:
      DataError: the header is unusable, or the file does not have the channels of the description.
    """
    return read_geometry(paths[0], known, _names_in_first(len(paths), description.channels))


def _names_in_first(num_files: int, names: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the channel names in the first file of an image."""
    return names if num_files == 1 else names[:1]
