"""Reads CT volumes and segmentations from NIfTI files, and writes segmentations.

Public CT sets contain files with known faults. A fault is repaired with a logged warning if the correct value is known.
Otherwise it raises an error that names the file.
"""

import dataclasses
from pathlib import Path

import nibabel
import numpy as np

from mtf_imaging.data.cases.description import LITS, Description
from mtf_imaging.data.nifti.geometry import Geometry
from mtf_imaging.data.nifti.image_file import check_room, is_compressed, open_image
from mtf_imaging.data.nifti.orientation import y_points_back
from mtf_imaging.data.nifti.spacing_table import NO_TABLE, SpacingTable
from mtf_imaging.data.nifti.stored_values import StoredValues
from mtf_imaging.data.nifti.voxel_values import hounsfield, warn_once
from mtf_imaging.data.nifti.voxel_values import labels as stored_labels
from mtf_imaging.errors import DataError
from mtf_imaging.files.atomic import atomic_path
from mtf_imaging.files.reading import access_named, memory_named

# In voxels. Rounding in headers stays below it, and any meaningful difference in orientation or position exceeds it.
_SAME_PLACE = 0.5


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

    def without_voxels(self) -> "Volume":
        """Returns a copy without voxels, enough for `read_labels`; the voxels of a large CT take 0.5 GB."""
        return dataclasses.replace(self, hu=self.hu[:0].copy())  # a view would keep all voxels in memory


@dataclasses.dataclass(frozen=True)
class Segmentation:
    """Labels of a CT in canonical axes.

    Attributes:
      labels: uint8 `[x, y, z]`, 0 background, 1 liver, 2 lesion.
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
      `voxel_values.hounsfield`.

    Raises:
      DataError: the file is missing, damaged, not NIfTI or not a single 3-D volume, or its affine is singular or not
        finite.
    """
    path = Path(path)
    image, geometry = _open(path)
    with memory_named(path):
        hu = hounsfield(StoredValues(image, path))
    if why := _why_lost(geometry):
        turned = y_points_back(hu)
        axes = "LPS, because the spine shows that the second axis points to the back" if turned else "RAS"
        geometry, size, settings = _by_size(geometry, path, known, turned)
        warn_once(f"{path}: {why}; read as {axes}, with {size}.", settings)
    else:
        known.check(path, geometry.stored_spacing)
    return Volume(geometry.to_canonical(hu), geometry, path)


def read_geometry(path: str | Path, known: SpacingTable = NO_TABLE) -> Geometry:
    """Reads only the header of a CT, for its shape and spacing.

    If the header lacks the geometry, the x and y axes may be reversed, because only the image shows their direction.

    Raises:
      DataError: the header is unusable; see `read_volume`.
    """
    geometry = _open(Path(path))[1]
    return _by_size(geometry, Path(path), known, turned=False)[0] if _why_lost(geometry) else geometry


def read_segmentation(
    path: str | Path, known: SpacingTable = NO_TABLE, description: Description = LITS
) -> Segmentation:
    """Reads a segmentation without its volume; if its header lacks the geometry, the axes are read as RAS.

    Args:
      path: a .nii or .nii.gz file.
      known: voxel sizes of files whose headers lack them.
      description: the labels of the data set.

    Raises:
      DataError: the file cannot be used (see `read_volume`), or it has other labels.
    """
    path = Path(path)
    image, geometry = _open(path)
    if why := _why_lost(geometry):
        geometry, size, settings = _by_size(geometry, path, known, turned=False)
        warn_once(f"{path}: {why}; read with {size}.", settings)
    else:
        known.check(path, geometry.stored_spacing)
    with memory_named(path):
        return Segmentation(
            geometry.to_canonical(stored_labels(StoredValues(image, path), description)), geometry, path
        )


def read_labels(path: str | Path, volume: Volume | Segmentation, description: Description = LITS) -> np.ndarray:
    """Reads the labels of the segmentation of `volume` as uint8 `[x, y, z]`; see `read_mask`."""
    return read_mask(path, volume, description).labels


def read_mask(path: str | Path, volume: Volume | Segmentation, description: Description = LITS) -> Segmentation:
    """Reads the segmentation of `volume`.

    Args:
      path: a .nii or .nii.gz file of labels, for LiTS 0 background, 1 liver, 2 lesion.
      volume: the volume of the segmentation, or another segmentation of that volume.
      description: the labels of the data set.

    Returns:
      The labels, aligned with the voxels of `volume`, with the geometry of the mask's file. A mask with the same voxels
      in another axis order is reoriented. If the affines of the mask and of `volume` contradict each other, voxels are
      matched by their indices, with a warning.

    Raises:
      DataError: the file cannot be used (see `read_volume`), the shapes of the mask and of `volume` differ, or the mask
        has other labels.
    """
    path = Path(path)
    image, geometry = _open(path)
    own = volume.geometry
    same_voxels = geometry.stored_shape == own.stored_shape
    if same_voxels and _same_place(geometry.affine, own.file_affine, own.stored_shape):
        pass
    elif geometry.shape == own.shape and _same_place(geometry.canonical_affine, own.canonical_affine, own.shape):
        own = geometry
    elif same_voxels:
        warn_once(f"{path}: its affine differs from the affine of {volume.path}; voxels are matched by their indices.")
    else:
        raise DataError(
            f"{path}: this mask has shape {geometry.stored_shape}, but {volume.path} has shape {own.stored_shape}. "
            "Fix: give the mask that belongs to this volume."
        )
    with memory_named(path):
        labels = own.to_canonical(stored_labels(StoredValues(image, path), description))
    return Segmentation(labels, dataclasses.replace(own, header=geometry.header), path)


def write_labels(path: str | Path, labels: np.ndarray, geometry: Geometry) -> None:
    """Writes a segmentation in the geometry of its volume.

    The file has the affine, shape, axis order, units and codes of the volume's file, and labels as uint8. The write is
    atomic: the file gets its name only when it is complete.

    Args:
      path: a .nii or .nii.gz file to write or replace.
      labels: uint8 `[x, y, z]` in canonical axes.
      geometry: geometry of the volume.

    Raises:
      DataError: the shapes of the labels and the volume differ.
    """
    if labels.shape != geometry.shape:
        raise DataError(
            f"{path}: the labels have shape {labels.shape}, but the volume has shape {geometry.shape} (x, y, z). "
            "Fix: give labels in the canonical axes of the volume."
        )
    header = geometry.header.copy()
    header.set_data_dtype(np.uint8)
    header.set_slope_inter(1, 0)
    header["cal_min"] = header["cal_max"] = 0  # the display window of a CT would hide labels
    stored = geometry.to_stored(labels).astype(np.uint8, copy=False).reshape(header.get_data_shape())
    image_class = nibabel.Nifti2Image if isinstance(header, nibabel.Nifti2Header) else nibabel.Nifti1Image
    with atomic_path(path) as temporary:
        nibabel.save(image_class(stored, geometry.file_affine, header), temporary)


def _open(path: Path) -> tuple[nibabel.Nifti1Image, Geometry]:
    """Reads the header of a file; the geometry is not corrected."""
    with access_named(path):
        if not path.is_file():
            raise DataError(f"{path}: this file does not exist. Fix: check the path.")
    image = open_image(path)
    if is_compressed(path) != path.name.endswith(".gz"):
        is_plain = path.name.endswith(".gz")
        what = "not compressed, but its name ends" if is_plain else "compressed, but its name does not end"
        warn_once(f"{path}: this file is {what} in .gz; it is read by its content.")
    dtype = image.get_data_dtype()
    if dtype.kind not in "iuf":
        raise DataError(
            f"{path}: voxels are of type {dtype}, not plain numbers. Fix: store one number (HU or label) per voxel."
        )
    if len(image.shape) < 3 or any(size != 1 for size in image.shape[3:]) or min(image.shape) < 1:
        raise DataError(f"{path}: shape {image.shape} is not a single 3-D volume. Fix: store one volume per file.")
    check_room(image, path)
    affine = np.asarray(image.affine, np.float64)
    if not np.all(np.isfinite(affine)) or _is_flat(affine):
        raise DataError(f"{path}: the affine {affine[:3].tolist()} does not define the axes. Fix: repair the header.")
    return image, Geometry(image.header.copy(), affine)


def _is_flat(affine: np.ndarray) -> bool:
    """Returns whether the three axes of an affine are linearly dependent."""
    flat = abs(np.linalg.det(affine[:3, :3])) < 1e-9
    return flat or bool(np.isnan(nibabel.io_orientation(affine)).any())  # nibabel's threshold is relative


def _same_place(affine: np.ndarray, other: np.ndarray, shape: tuple[int, int, int]) -> bool:
    """Returns whether two affines agree on the corners of a volume, within half of the smallest voxel side."""
    corners = np.stack(np.meshgrid(*((0, n - 1) for n in shape)), axis=-1).reshape(-1, 3)
    moved = nibabel.affines.apply_affine(affine, corners) - nibabel.affines.apply_affine(other, corners)
    return bool(np.linalg.norm(moved, axis=1).max() <= _SAME_PLACE * min(nibabel.affines.voxel_sizes(other)))


def _why_lost(geometry: Geometry) -> str | None:
    """Returns the reason why a header does not define the axes, or None if it does."""
    if np.allclose(geometry.affine, np.eye(4)):
        return "its affine is the identity and does not define the axes"
    if not geometry.header["sform_code"] and not geometry.header["qform_code"]:
        return "it has no affine that defines the axes (sform and qform codes are 0)"
    return None


def _by_size(
    geometry: Geometry, path: Path, known: SpacingTable, turned: bool
) -> tuple[Geometry, str, tuple[str, ...]]:
    """Returns the geometry with the voxel size of the table or the pixdim, its description, and related settings."""
    sizes, settings = known.lookup(path), ()
    source = f"from {known.path}"
    if sizes is None:
        pixdim = [abs(float(mm)) for mm in geometry.header["pixdim"][1:4]]
        sizes = [mm if np.isfinite(mm) and mm > 0 else 1.0 for mm in pixdim]
        source = (
            "from its pixdim; spacing and all results in mm depend on this size. "
            f"Fix: give the true size in a spacing_table{known.missing_row(path)}"
        )
        settings = ("spacing_table",)
    signs = (-1, -1, 1) if turned else (1, 1, 1)
    size = " x ".join(f"{mm:g}" for mm in sizes)
    affine = np.diag([*np.multiply(signs, sizes), 1.0])
    return dataclasses.replace(geometry, affine=affine), f"voxels of {size} mm, {source}", settings
