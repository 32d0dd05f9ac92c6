"""Reads images of any modality with any number of channels."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mtf_imaging.data.cases.description import Description
from mtf_imaging.data.modality import is_ct
from mtf_imaging.data.nifti.geometry import Geometry
from mtf_imaging.data.nifti.opening import open_file, same_place, why_lost, with_known_size
from mtf_imaging.data.nifti.orientation import y_points_back
from mtf_imaging.data.nifti.spacing_table import NO_TABLE, SpacingTable
from mtf_imaging.data.nifti.stored_values import StoredValues
from mtf_imaging.data.nifti.voxel_values import finite_values, hounsfield, warn_once
from mtf_imaging.errors import DataError
from mtf_imaging.files.reading import memory_named


@dataclasses.dataclass(frozen=True)
class Image:
    """An image in canonical axes.

    Attributes:
      channels: one array `[x, y, z]` per channel: int16 Hounsfield units of a CT, float32 values of other modalities.
      names: the names of the channels.
      geometry: geometry of the first file.
      path: path of the first file.
    """

    channels: tuple[np.ndarray, ...]
    names: tuple[str, ...]
    geometry: Geometry
    path: Path

    def without_voxels(self) -> "Image":
        """Returns a copy without voxels, enough for `read_labels`."""
        return dataclasses.replace(self, channels=())


def read_image(paths: Sequence[str | Path], description: Description, known: SpacingTable = NO_TABLE) -> Image:
    """Reads the channels of an image.

    Args:
      paths: one file per channel, or one file whose fourth axis holds the channels.
      description: the names of the channels.
      known: voxel sizes of files whose headers lack them, by the name of the first file.

    Returns:
      The image. For lost geometry and repairs of Hounsfield units, see `read_volume`; without a CT, the axes of a file
      that has lost its geometry are RAS. In channels of other modalities, NaN and infinite voxels become 0, with a
      warning.

    Raises:
      DataError: a file cannot be used, the number of channels differs from the description, or the grids or affines of
        two channels differ.
    """
    paths, names = [Path(path) for path in paths], description.channels
    if len(paths) not in (1, len(names)):
        raise DataError(
            f"{paths[0]}: this image has {len(paths)} files, but dataset.json names {len(names)} channels: "
            f"{', '.join(names)}. Fix: give one file per channel, or one file with all channels."
        )
    parts = _parts(paths, names)
    first = parts[0][1]
    arrays = []
    for (stored, geometry), name in zip(parts, names, strict=True):
        _check_same_grid(stored.path, geometry, paths[0], first)
        with memory_named(stored.path):
            arrays.append(hounsfield(stored) if is_ct(name) else finite_values(stored, name))
    if why := why_lost(first):
        frame = _inferred(why, first, paths[0], known, dict(zip(names, arrays, strict=True)))
        oriented = [frame if why_lost(geometry) else geometry for _, geometry in parts]
    else:
        known.check(paths[0], first.stored_spacing)
        frame, oriented = first, [geometry for _, geometry in parts]
    channels = (geometry.to_canonical(array) for geometry, array in zip(oriented, arrays, strict=True))
    return Image(tuple(channels), names, frame, paths[0])


def read_image_geometry(
    paths: Sequence[str | Path], description: Description, known: SpacingTable = NO_TABLE
) -> Geometry:
    """Reads only the header of the first file of an image; see `read_geometry`.

    Raises:
      DataError: the header is unusable, or the file does not have the channels of the description.
    """
    path = Path(paths[0])
    geometry = open_file(path, _names_in_first(len(paths), description.channels))[1]
    return with_known_size(geometry, path, known, turned=False)[0] if why_lost(geometry) else geometry


def _names_in_first(num_files: int, names: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the names of the channels in the first file of an image."""
    return names if num_files == 1 else names[:1]


def _parts(paths: list[Path], names: tuple[str, ...]) -> list[tuple[StoredValues, Geometry]]:
    """Returns the stored numbers of each channel and the geometry of its file."""
    if len(paths) == 1:
        image, geometry = open_file(paths[0], names)
        return [(StoredValues(image, paths[0], number), geometry) for number in range(len(names))]
    parts = []
    for path, name in zip(paths, names, strict=True):
        image, geometry = open_file(path, (name,))
        parts.append((StoredValues(image, path), geometry))
    return parts


def _check_same_grid(path: Path, geometry: Geometry, first_path: Path, first: Geometry) -> None:
    """Raises DataError if the voxels of a channel lie elsewhere than those of the first channel."""
    if geometry.shape != first.shape:
        what = f"shape {geometry.shape} (x, y, z)", f"shape {first.shape}"
    elif not same_place(geometry.canonical_affine, first.canonical_affine, first.shape):
        what = f"the affine {_rows(geometry)}", f"the affine {_rows(first)}"
    else:
        return
    raise DataError(
        f"{path}: this channel has {what[0]}, but {first_path} of the same case has {what[1]}. "
        "Fix: resample all channels of a case to one grid."
    )


def _rows(geometry: Geometry) -> list:
    """Returns the first three rows of the affine from canonical voxels, rounded for messages."""
    return np.round(geometry.canonical_affine[:3], 3).tolist()


def _inferred(why: str, geometry: Geometry, path: Path, known: SpacingTable, arrays: dict[str, np.ndarray]) -> Geometry:
    """Returns the geometry of files whose header lacks it, with a warning."""
    turned = any(y_points_back(array) for name, array in arrays.items() if is_ct(name))
    axes = "LPS, because the spine shows that the second axis points to the back" if turned else "RAS"
    frame, size, settings = with_known_size(geometry, path, known, turned)
    warn_once(f"{path}: {why}; read as {axes}, with {size}.", settings)
    return frame
