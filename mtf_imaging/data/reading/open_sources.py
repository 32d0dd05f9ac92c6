"""Opens images and masks that are read region by region.

Public CT sets contain files with known faults. A fault is repaired with a logged warning if the correct value is known.
Otherwise it raises an error that names the file.

If a header has lost its geometry, opening a CT reads it once, because only the spine shows the axis directions.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.description.file_labels import labels_of_values, listed
from mtf_imaging.data.formats.all_formats import open_stored
from mtf_imaging.data.formats.dicom.segmentation_reading import open_segmentation_in, segmentation_geometry
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.images.label_repair import LabelRepair
from mtf_imaging.data.images.lost_geometry import same_place, why_lost, with_known_size
from mtf_imaging.data.images.orientation import SpineSearch
from mtf_imaging.data.images.planes import RepairedPlanes
from mtf_imaging.data.images.repairs import FiniteRepair, HounsfieldRepair
from mtf_imaging.data.images.sources import ImageSource, StoredSource
from mtf_imaging.data.images.spacing_table import NO_TABLE, SpacingTable
from mtf_imaging.data.images.stored import Stored
from mtf_imaging.data.images.voxel_values import warn_once
from mtf_imaging.data.listing.image_formats import is_dicom_seg, is_mask_folder
from mtf_imaging.data.modality import CT, is_ct, stated_modality
from mtf_imaging.data.reading.mask_folders import open_masks
from mtf_imaging.errors import DataError
from mtf_imaging.files.reading import memory_named

_OTHER = "OT"  # the modality of files converted by programs that did not know it


class Placed(Protocol):
    """An image or a mask: its geometry and its file."""

    @property
    def geometry(self) -> Geometry: ...

    @property
    def path(self) -> Path: ...


def open_volume(path: str | Path, known: SpacingTable = NO_TABLE) -> ImageSource:
    """Opens a CT, an image of one channel: int16 Hounsfield units, at least -1024; see `HounsfieldRepair`.

    An affine that is missing or the identity means that the file has lost its geometry. The axes are then inferred from
    the image, with a warning: LPS if the position of the spine shows it, otherwise RAS. The voxel size is taken from
    `known`, or from the header's pixdim if `known` has no entry.

    Args:
      path: an image, for example a .nii.gz file; see `open_stored`. A fourth axis of size 1 is dropped.
      known: voxel sizes of files whose headers lack them.

    Raises:
      DataError: the file is missing, not NIfTI or not a single 3-D volume, or its affine is singular or not finite.
    """
    path = Path(path)
    (stored,), geometry = open_stored(path)
    return _opened([(stored, geometry)], (CT,), path, known)


def open_image_source(
    paths: Sequence[str | Path], description: Description, known: SpacingTable = NO_TABLE
) -> ImageSource:
    """Opens the channels of an image: int16 Hounsfield units of a CT, or float32 values of other modalities.

    For lost geometry and repairs of Hounsfield units, see `open_volume`. If a file without a CT has lost its geometry,
    its axes are read as RAS. In channels of other modalities, NaN and infinite voxels become 0, with a warning.

    Args:
      paths: one file per channel, or one file with the channels along the fourth axis.
      description: the channel names.
      known: voxel sizes of files whose headers lack them, by the name of the first file.

    Raises:
      DataError: a file cannot be used, the number of channels differs from the description, or the grids or affines of
        two channels differ.
    """
    paths, names = [Path(path) for path in paths], description.channels
    if len(paths) not in (1, len(names)):
        what = f"this image has {len(paths)} files, but dataset.json names {len(names)} channels: {', '.join(names)}"
        raise DataError(f"{paths[0]}: {what}. Fix: give one file per channel, or one file with all channels.")
    parts = _parts(paths, names)
    for stored, geometry in parts:
        _check_same_grid(stored.path, geometry, paths[0], parts[0][1])
    return _opened(parts, names, paths[0], known)


def open_segmentation(
    path: str | Path, known: SpacingTable = NO_TABLE, description: Description = LITS, others: Sequence[Path] = ()
) -> StoredSource:
    """Opens a segmentation without its volume; if its header lacks the geometry, the axes are read as RAS.

    Args:
      path: a .nii or .nii.gz file, or another format of volumes, or a DICOM-SEG file (.dcm).
      known: voxel sizes of files whose headers lack them.
      description: the permitted labels.
      others: for a DICOM-SEG file, other DICOM-SEG files of the same volume. The result has the planes of all of them.

    Raises:
      DataError: the file cannot be used; see `open_volume` and `open_segmentation_in`.
    """
    path = Path(path)
    if is_dicom_seg(path):
        return _dicom_seg(path, segmentation_geometry([path, *others]), description)
    (stored,), geometry = open_stored(path)
    if why := why_lost(geometry):
        geometry, size, settings = with_known_size(geometry, path, known, turned=False)
        warn_once(f"{path}: {why}; read with {size}.", settings)
    else:
        known.check(path, geometry.stored_spacing)
    return _mask_source(stored, geometry, description)


def open_mask(path: str | Path, volume: Placed, description: Description = LITS) -> StoredSource:
    """Opens the segmentation of `volume`, aligned with its voxels.

    A mask with the same voxels in another axis order is reoriented. If the affines of the mask and of `volume`
    contradict each other, voxels are matched by their indices, with a warning.

    Args:
      path: a .nii or .nii.gz file of labels, or another format of volumes, or a DICOM-SEG file (.dcm); or a folder of
        masks, see `open_masks`.
      volume: the image of the segmentation, or another segmentation of that image.
      description: the permitted labels.

    Raises:
      DataError: the file cannot be used (see `open_volume` and `open_segmentation_in`), or the shapes of the mask and
        of `volume` differ.
    """
    path = Path(path)
    if is_dicom_seg(path):
        return _dicom_seg(path, volume.geometry, description)
    (stored,), geometry = open_masks(path, description) if is_mask_folder(path) else open_stored(path)
    own = volume.geometry
    same_voxels = geometry.stored_shape == own.stored_shape
    if same_voxels and same_place(geometry.affine, own.file_affine, own.stored_shape):
        pass
    elif geometry.shape == own.shape and same_place(geometry.canonical_affine, own.canonical_affine, own.shape):
        own = geometry
    elif same_voxels:
        warn_once(f"{path}: its affine differs from the affine of {volume.path}; voxels are matched by their indices.")
    else:
        shapes = f"shape {geometry.stored_shape}, but {volume.path} has shape {own.stored_shape}"
        raise DataError(f"{path}: this mask has {shapes}. Fix: give the mask that belongs to this volume.")
    return _mask_source(stored, dataclasses.replace(own, header=geometry.header), description)


def _dicom_seg(path: Path, geometry: Geometry, description: Description) -> StoredSource:
    """Opens a DICOM-SEG file in the voxel grid of a volume."""
    plain = dataclasses.replace(description, stored={})  # its segments have no values
    return _mask_source(open_segmentation_in(path, geometry, plain), geometry, plain)


def _mask_source(stored: Stored, geometry: Geometry, description: Description) -> StoredSource:
    labels = labels_of_values(description, stored.names)
    if labels != labels_of_values(description, {}):
        shown = ", ".join(f"{value} {name}" for value, name in stored.names.items())
        what = f"its header names the values {shown}, unlike dataset.json ({listed(description)})"
        warn_once(f"{stored.path}: {what}; its labels are those of its names.")
    return StoredSource(RepairedPlanes(stored, lambda stored: LabelRepair(stored, description, labels)), geometry)


def _parts(paths: list[Path], names: tuple[str, ...]) -> list[tuple[Stored, Geometry]]:
    """Returns the stored numbers of each channel and the geometry of its file."""
    if len(paths) == 1:
        channels, geometry = open_stored(paths[0], names)
        return [(stored, geometry) for stored in channels]
    parts = []
    for path, name in zip(paths, names, strict=True):
        (stored,), geometry = open_stored(path, (name,))
        parts.append((stored, geometry))
    return parts


def _opened(
    parts: list[tuple[Stored, Geometry]], names: tuple[str, ...], path: Path, known: SpacingTable
) -> ImageSource:
    """Returns the source of the image with first file `path`; infers its geometry if the header lacks it."""
    first = parts[0][1]
    channels = [_repaired(stored, name) for (stored, _), name in zip(parts, names, strict=True)]
    if why := why_lost(first):
        frame = _inferred(why, first, path, known, dict(zip(names, channels, strict=True)))
        oriented = [frame if why_lost(geometry) else geometry for _, geometry in parts]
    else:
        known.check(path, first.stored_spacing)
        frame, oriented = first, [geometry for _, geometry in parts]
    return ImageSource(tuple(map(StoredSource, channels, oriented)), names, frame, path)


def _repaired(stored: Stored, name: str) -> RepairedPlanes:
    _check_modality(stored, name)
    if is_ct(name):
        return RepairedPlanes(stored, HounsfieldRepair)
    return RepairedPlanes(stored, lambda stored: FiniteRepair(stored, name))


def _check_modality(stored: Stored, channel: str) -> None:
    """Checks the modality that a file states, which only DICOM does, against the name of its channel.

    A channel whose name does not state a modality, such as "arterial phase", accepts any image.
    """
    wanted, found = stated_modality(channel), stored.modality
    if wanted is None or found in (None, wanted):
        return
    if found == _OTHER:
        warn_once(f"{stored.path}: its modality is {_OTHER} (other), not {wanted}; it is read as channel '{channel}'.")
        return
    what = f"the header states the modality {found}, but the channel '{channel}' needs {wanted}"
    fix = "give an image of this modality, or name the channels in a dataset.json; convert a wrong header to NIfTI"
    raise DataError(f"{stored.path}: {what}. Fix: {fix}.")


def _check_same_grid(path: Path, geometry: Geometry, first_path: Path, first: Geometry) -> None:
    """Raises DataError if a channel does not have the same voxel positions as the first channel."""
    is_same_shape = geometry.shape == first.shape
    if not is_same_shape or not same_place(geometry.canonical_affine, first.canonical_affine, first.shape):
        own, other = (
            f"shape {each.shape} and the affine {np.round(each.canonical_affine[:3], 3).tolist()}"
            for each in (geometry, first)
        )
        what = f"this channel has {own} (x, y, z), but {first_path} of the same case has {other}"
        raise DataError(f"{path}: {what}. Fix: resample all channels of a case to one grid.")


def _inferred(
    why: str, geometry: Geometry, path: Path, known: SpacingTable, channels: dict[str, RepairedPlanes]
) -> Geometry:
    """Returns the geometry of files whose header lacks it, with a warning."""
    turned = any(_y_points_back(channel) for name, channel in channels.items() if is_ct(name))
    axes = "LPS, because the spine shows that the second axis points to the back" if turned else "RAS"
    frame, size, settings = with_known_size(geometry, path, known, turned)
    warn_once(f"{path}: {why}; read as {axes}, with {size}.", settings)
    return frame


def _y_points_back(channel: RepairedPlanes) -> bool:
    """Returns whether the second axis of a CT points to the back; reads the whole file."""
    search = SpineSearch()
    with memory_named(channel.path):
        for hu in channel.slabs():
            search.add(hu)
        channel.check()
    return search.y_points_back()
