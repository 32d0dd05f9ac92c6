"""Reads a folder of masks, one for each label as of TotalSegmentator, plane by plane as one segmentation."""

import functools
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from mtf_imaging.data.description.description import Description
from mtf_imaging.data.description.file_labels import names_of_values
from mtf_imaging.data.formats.all_formats import open_stored
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.images.lost_geometry import same_place
from mtf_imaging.data.images.stored import Planes, Stored
from mtf_imaging.data.images.voxel_values import warn_once
from mtf_imaging.data.listing.image_files import image_files
from mtf_imaging.data.listing.image_formats import VOLUME_FORMATS
from mtf_imaging.files.reading import Fault, faults_named


def open_masks(folder: Path, description: Description) -> tuple[list[Stored], Geometry]:
    """Opens the masks of a folder whose names, without ending, are those of labels.

    A label without a mask has no voxel, and other masks are not read. A voxel of several masks has the last of their
    labels in the order of values, with a warning.

    Raises:
      DataError: no mask has the name of a label, two masks have different grids, or a mask cannot be read.
    """
    files = {VOLUME_FORMATS.stem(file): file for file in image_files(folder, VOLUME_FORMATS, False)}
    opened = {value: open_stored(files[name]) for value, name in names_of_values(description).items() if name in files}
    with faults_named(folder):
        if not opened:
            names = f"{', '.join(description.labels)}, but it holds {', '.join(sorted(files)) or 'no mask'}"
            raise Fault(f"this folder has no mask of {names}", "name the masks after the labels")
        (first,), geometry = next(iter(opened.values()))
        for (stored,), own in opened.values():
            if stored.shape != first.shape or not same_place(own.affine, geometry.affine, first.shape):
                what = f"{stored.path.name} has other voxels than {first.path.name}"
                raise Fault(what, "resample the masks of a case to the grid of its image")
    parts = {value: stored for value, ((stored,), _) in opened.items()}
    is_stream = any(stored.is_stream for stored in parts.values())
    merged = functools.partial(_Merged, folder, parts)
    return [Stored(folder, first.shape, np.dtype(np.uint16), merged, is_stream=is_stream)], geometry


class _Merged(Planes):
    """Planes of masks, each painted over the earlier ones.

    Args:
      folder: the folder, for messages.
      parts: the stored numbers of each mask, which are 0 outside of it, by its value.
    """

    def __init__(self, folder: Path, parts: Mapping[int, Stored]) -> None:
        self._folder, self._parts = folder, {value: (stored, stored.open()) for value, stored in parts.items()}
        self._overlaps: dict[str, None] = {}

    def read(self, planes: slice) -> np.ndarray:
        shape = next(iter(self._parts.values()))[0].shape
        merged = np.zeros((*shape[:2], planes.stop - planes.start), np.uint16, order="F")
        for value, (stored, file) in self._parts.items():
            mask = stored.scaled(file.read(planes)) > 0
            for other in np.flatnonzero(np.bincount(merged[mask])[1:]) + 1:
                self._overlaps[f"{self._parts[other][0].path.name} and {stored.path.name}"] = None
            merged[mask] = value
        return merged

    def check_end(self) -> None:
        for _, file in self._parts.values():
            file.check_end()
        if self._overlaps:
            what = f"{len(self._overlaps)} pair(s) of masks overlap, such as {'; '.join([*self._overlaps][:3])}"
            warn_once(f"{self._folder}: {what}; the label with the higher value replaces the other.")

    def close(self) -> None:
        for _, file in self._parts.values():
            file.close()
