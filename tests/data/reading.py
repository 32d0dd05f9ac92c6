"""Reads masks without their images."""

from pathlib import Path

from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.images.sources import read_whole
from mtf_imaging.data.images.spacing_table import NO_TABLE, SpacingTable
from mtf_imaging.data.reading.images import Segmentation
from mtf_imaging.data.reading.open_sources import open_segmentation


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
