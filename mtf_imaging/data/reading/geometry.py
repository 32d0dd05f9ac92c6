"""Reads only the headers of images, for their shape and spacing."""

from collections.abc import Sequence
from pathlib import Path

from mtf_imaging.data.description.description import Description
from mtf_imaging.data.formats.all_formats import open_stored
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.images.lost_geometry import why_lost, with_known_size
from mtf_imaging.data.images.spacing_table import NO_TABLE, SpacingTable


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
      DataError: the header is unusable; see `open_volume`.
    """
    geometry = open_stored(Path(path), channels)[1]
    return with_known_size(geometry, Path(path), known, turned=False)[0] if why_lost(geometry) else geometry


def read_image_geometry(
    paths: Sequence[str | Path], description: Description, known: SpacingTable = NO_TABLE
) -> Geometry:
    """Reads only the header of the first file of an image, for its shape and spacing.

    Raises:
      DataError: the header is unusable, or the file does not have the channels of the description.
    """
    names = description.channels
    return read_geometry(paths[0], known, names if len(paths) == 1 else names[:1])
