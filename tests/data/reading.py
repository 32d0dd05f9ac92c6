"""Reads headers and masks without their images."""

from pathlib import Path

from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.formats.all_formats import open_stored
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.images.lost_geometry import why_lost, with_known_size
from mtf_imaging.data.images.sources import read_whole
from mtf_imaging.data.images.spacing_table import NO_TABLE, SpacingTable
from mtf_imaging.data.reading.images import Segmentation
from mtf_imaging.data.reading.open_sources import open_segmentation


def read_geometry(
    path: str | Path, known: SpacingTable = NO_TABLE, channels: tuple[str, ...] | None = None
) -> Geometry:
    """Reads only the header of an image, for its shape and spacing.

    If the header lacks the geometry, the x and y axes may be reversed, because only the image shows their direction.

    Args:
      path: a .nii or .nii.gz file.
      known: voxel sizes of files whose headers lack them.
      channels: the channel names that the file must have along its fourth axis; None for a single volume.

    Raises:
      DataError: the header is unusable; see `read_volume`.
    """
    geometry = open_stored(Path(path), channels)[1]
    return with_known_size(geometry, Path(path), known, turned=False)[0] if why_lost(geometry) else geometry


def read_segmentation(
    path: str | Path, known: SpacingTable = NO_TABLE, description: Description = LITS
) -> Segmentation:
    """Reads a segmentation without its volume; if its header lacks the geometry, the axes are read as RAS.

    Args:
      path: a .nii or .nii.gz file.
      known: voxel sizes of files whose headers lack them.
      description: the permitted labels.

    Raises:
      DataError: the file cannot be used (see `read_volume`), or it has labels that are not in the description.
    """
    source = open_segmentation(path, known, description)
    return Segmentation(read_whole(source), source.geometry, source.path)
