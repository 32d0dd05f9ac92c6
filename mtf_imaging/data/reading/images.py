"""Reads CT volumes and segmentations from NIfTI files, and writes segmentations; `channels.py` reads other images.

Public CT sets contain files with known faults. A fault is repaired with a logged warning if the correct value is known.
Otherwise it raises an error that names the file.
"""

import dataclasses
from pathlib import Path

import numpy as np

from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.formats.all_formats import open_stored, write_label_slabs
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.images.lost_geometry import why_lost, with_known_size
from mtf_imaging.data.images.sources import read_whole
from mtf_imaging.data.images.spacing_table import NO_TABLE, SpacingTable
from mtf_imaging.data.reading.open_sources import Placed, open_mask, open_volume


@dataclasses.dataclass(frozen=True)
class Volume:
    """A CT in canonical axes.

    Attributes:
      hu: int16 `[x, y, z]`, Hounsfield units, at least -1024.
      geometry: geometry of the file.
      path: path of the file.
    """

    hu: np.ndarray
    geometry: Geometry
    path: Path


@dataclasses.dataclass(frozen=True)
class Segmentation:
    """Labels of an image in canonical axes.

    Attributes:
      labels: uint8 `[x, y, z]`, with the values of a description; in LiTS, 0 background, 1 liver, 2 lesion.
      geometry: geometry of the file.
      path: path of the file.
    """

    labels: np.ndarray
    geometry: Geometry
    path: Path


def read_volume(path: str | Path, known: SpacingTable = NO_TABLE) -> Volume:
    """Reads a CT.

    Args:
      path: a .nii or .nii.gz file; a fourth axis of size 1 is dropped.
      known: voxel sizes of files whose headers lack them.

    Returns:
      The volume. An affine that is missing or the identity means that the file has lost its geometry. The axes are then
      inferred from the image, with a warning: LPS if the position of the spine shows it, otherwise RAS. The voxel size
      is taken from `known`, or from the header's pixdim if `known` has no entry. For repairs of voxel values, see
      `HounsfieldRepair`.

    Raises:
      DataError: the file is missing, damaged, not NIfTI or not a single 3-D volume, or its affine is singular or not
        finite.
    """
    source = open_volume(path, known)
    return Volume(read_whole(source.channels[0]), source.geometry, source.path)


def read_labels(path: str | Path, volume: Placed, description: Description = LITS) -> np.ndarray:
    """Reads the labels for `volume` as uint8 `[x, y, z]`; see `read_mask`."""
    return read_mask(path, volume, description).labels


def read_mask(path: str | Path, volume: Placed, description: Description = LITS) -> Segmentation:
    """Reads the segmentation of `volume`.

    Args:
      path: a .nii or .nii.gz file of labels.
      volume: the image of the segmentation, or another segmentation of that image.
      description: the permitted labels.

    Returns:
      The labels, aligned with the voxels of `volume`, and the geometry of the mask's file. A mask with the same voxels
      in another axis order is reoriented. If the affines of the mask and of `volume` contradict each other, voxels are
      matched by their indices, with a warning.

    Raises:
      DataError: the file cannot be used (see `read_volume`), the shapes of the mask and of `volume` differ, or the mask
        has labels that are not in the description.
    """
    source = open_mask(path, volume, description)
    return Segmentation(read_whole(source), source.geometry, source.path)


def write_labels(path: str | Path, labels: np.ndarray, geometry: Geometry) -> None:
    """Writes a segmentation in the geometry of its volume; see `write_label_slabs`.

    Args:
      path: a .nii or .nii.gz file to write or replace; for a volume of one plane, also a .png, .tif or .tiff file.
      labels: uint8 `[x, y, z]` in canonical axes.
      geometry: geometry of the volume.

    Raises:
      DataError: the shapes of the labels and the volume differ.
    """
    write_label_slabs(path, [labels.astype(np.uint8, copy=False)], geometry)


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
