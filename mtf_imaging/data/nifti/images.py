"""Read CT volumes and segmentations from NIfTI files, and write segmentations back beside them.

Known faults of public CT sets are repaired with a logged warning where the right value is known; what cannot be known
is an error that names the file.
"""

import dataclasses
from pathlib import Path

import nibabel
import numpy as np

from mtf_imaging.data.nifti.geometry import Geometry
from mtf_imaging.data.nifti.image_file import check_room, is_compressed, open_image
from mtf_imaging.data.nifti.orientation import y_points_back
from mtf_imaging.data.nifti.spacing_table import NO_TABLE, SpacingTable
from mtf_imaging.data.nifti.stored_values import StoredValues
from mtf_imaging.data.nifti.voxel_values import hounsfield, warn_once
from mtf_imaging.data.nifti.voxel_values import labels as labels_of
from mtf_imaging.errors import DataError
from mtf_imaging.files.atomic import atomic_path
from mtf_imaging.files.reading import access_named, memory_named

_SAME_PLACE = 0.5  # of a voxel: what headers round off, and less than any orientation or shift that means something


@dataclasses.dataclass(frozen=True)
class Volume:
    """A CT in canonical axes.

    Attributes:
      hu: int16 `[x, y, z]`, Hounsfield units, at least -1024.
      geometry: how it lies in space and in its file.
      path: its file.
    """

    hu: np.ndarray
    geometry: Geometry
    path: Path

    def without_voxels(self) -> "Volume":
        """What says where it lies, for `read_labels`: the voxels of a large CT take 0.5 GB."""
        return dataclasses.replace(self, hu=self.hu[:0].copy())  # a view would keep them all


@dataclasses.dataclass(frozen=True)
class Segmentation:
    """Labels of a CT in canonical axes.

    Attributes:
      labels: uint8 `[x, y, z]`, 0 background, 1 liver, 2 lesion.
      geometry: how they lie in space and in their file.
      path: their file.
    """

    labels: np.ndarray
    geometry: Geometry
    path: Path


def read_volume(path: str | Path, known: SpacingTable = NO_TABLE) -> Volume:
    """Reads a CT.

    Args:
      path: a .nii or .nii.gz file; a fourth axis of size 1 is dropped.
      known: voxel sizes of files whose headers have lost them.

    Returns:
      The volume. Where the header does not say how the axes lie, because its affine is the identity or missing, which
      is what a file has that lost its geometry, they are told from the image, with a warning: RAS, or LPS where the
      spine says so; the voxel size is that of `known`, else the header's pixdim. `voxel_values.hounsfield` says which
      voxels are repaired.

    Raises:
      DataError: the file is missing, damaged, no NIfTI, not one 3-D volume, or its affine does not say how the axes
        lie.
    """
    path = Path(path)
    image, geometry = _open(path)
    with memory_named(path):
        hu = hounsfield(StoredValues(image, path))
    if why := _why_lost(geometry):
        turned = y_points_back(hu)
        axes = "LPS, because the spine shows that its second axis points to the back" if turned else "RAS"
        geometry, size, settings = _by_size(geometry, path, known, turned)
        warn_once(f"{path}: {why}; taken as {axes}, and {size}.", settings)
    else:
        known.check(path, geometry.stored_spacing)
    return Volume(geometry.to_canonical(hu), geometry, path)


def read_geometry(path: str | Path, known: SpacingTable = NO_TABLE) -> Geometry:
    """Reads the header of a CT alone, for shape and spacing; where axes are told from the image, they may be reversed.

    Raises:
      DataError: as `read_volume`, as far as the header tells.
    """
    geometry = _open(Path(path))[1]
    return _by_size(geometry, Path(path), known, turned=False)[0] if _why_lost(geometry) else geometry


def read_segmentation(path: str | Path, known: SpacingTable = NO_TABLE) -> Segmentation:
    """Reads a segmentation by itself; where its header does not say how the axes lie, they are taken as RAS.

    Args:
      path: a .nii or .nii.gz file.
      known: voxel sizes of files whose headers have lost them.

    Raises:
      DataError: as `read_volume`; or there are labels other than 0, 1, 2.
    """
    path = Path(path)
    image, geometry = _open(path)
    if why := _why_lost(geometry):
        geometry, size, settings = _by_size(geometry, path, known, turned=False)
        warn_once(f"{path}: {why}; taken as {size}.", settings)
    else:
        known.check(path, geometry.stored_spacing)
    with memory_named(path):
        return Segmentation(geometry.to_canonical(labels_of(StoredValues(image, path))), geometry, path)


def read_labels(path: str | Path, volume: Volume | Segmentation) -> np.ndarray:
    """Reads the labels of the segmentation of `volume` as uint8 `[x, y, z]`; see `read_mask`."""
    return read_mask(path, volume).labels


def read_mask(path: str | Path, volume: Volume | Segmentation) -> Segmentation:
    """Reads the segmentation of `volume`.

    Args:
      path: a .nii or .nii.gz file of labels 0 background, 1 liver, 2 lesion.
      volume: the volume it belongs to, or another segmentation of that.

    Returns:
      The labels, voxel for voxel on `volume`, with the geometry of the mask's file. A mask that stores the same voxels
      along other axes is reoriented. If the affine of the mask contradicts that of `volume`, voxels are matched by
      their indices, with a warning.

    Raises:
      DataError: as `read_volume`; or the mask has another shape than `volume`, or labels other than 0, 1, 2.
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
        warn_once(f"{path}: its affine is not that of {volume.path}; the mask is laid on that voxel for voxel.")
    else:
        raise DataError(
            f"{path}: this mask has shape {geometry.stored_shape}, but {volume.path} has shape {own.stored_shape}. "
            f"Fix: give the mask of the same voxels."
        )
    with memory_named(path):
        labels = own.to_canonical(labels_of(StoredValues(image, path)))
    return Segmentation(labels, dataclasses.replace(own, header=geometry.header), path)


def write_labels(path: str | Path, labels: np.ndarray, geometry: Geometry) -> None:
    """Writes a segmentation in the geometry of the volume that it belongs to.

    The file has the affine, shape, axis order, units and codes of the volume's file, and labels as uint8. It appears
    under its name only when it is whole.

    Args:
      path: a .nii or .nii.gz file to write or replace.
      labels: uint8 `[x, y, z]` in canonical axes.
      geometry: geometry of the volume.

    Raises:
      DataError: the labels have another shape than the volume.
    """
    if labels.shape != geometry.shape:
        raise DataError(
            f"{path}: labels of shape {labels.shape} do not fit their volume of shape {geometry.shape} (x, y, z)."
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
    """Reads the header; the geometry is as it says, right or wrong."""
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
            f"{path}: voxels are {dtype}, not plain numbers. Fix: store HU or labels as one number a voxel."
        )
    if len(image.shape) < 3 or any(size != 1 for size in image.shape[3:]) or min(image.shape) < 1:
        raise DataError(f"{path}: has shape {image.shape}, not that of one 3-D volume. Fix: store one volume a file.")
    check_room(image, path)
    affine = np.asarray(image.affine, np.float64)
    if not np.all(np.isfinite(affine)) or _is_flat(affine):
        raise DataError(
            f"{path}: its affine {affine[:3].tolist()} does not say how the axes lie. Fix: repair the header."
        )
    return image, Geometry(image.header.copy(), affine)


def _is_flat(affine: np.ndarray) -> bool:
    """Returns whether the three axes of an affine are linearly dependent."""
    flat = abs(np.linalg.det(affine[:3, :3])) < 1e-9
    return flat or bool(np.isnan(nibabel.io_orientation(affine)).any())  # nibabel's threshold is relative


def _same_place(affine: np.ndarray, other: np.ndarray, shape: tuple[int, int, int]) -> bool:
    """Whether two affines put the corners of a volume at the same places, within half of its smallest voxel side."""
    corners = np.stack(np.meshgrid(*((0, n - 1) for n in shape)), axis=-1).reshape(-1, 3)
    moved = nibabel.affines.apply_affine(affine, corners) - nibabel.affines.apply_affine(other, corners)
    return bool(np.linalg.norm(moved, axis=1).max() <= _SAME_PLACE * min(nibabel.affines.voxel_sizes(other)))


def _why_lost(geometry: Geometry) -> str | None:
    """Says why a header does not tell how the axes lie, or None where it does."""
    if np.allclose(geometry.affine, np.eye(4)):
        return "its affine is the identity, so it does not say how the axes lie"
    if not geometry.header["sform_code"] and not geometry.header["qform_code"]:
        return "it has no affine (sform and qform codes are 0), so it does not say how the axes lie"
    return None


def _by_size(
    geometry: Geometry, path: Path, known: SpacingTable, turned: bool
) -> tuple[Geometry, str, tuple[str, ...]]:
    """The geometry by a voxel size from elsewhere than the affine, what to say of that size, and of what settings."""
    sizes, settings = known.of(path), ()
    source = f"by {known.path}"
    if sizes is None:
        pixdim = [abs(float(mm)) for mm in geometry.header["pixdim"][1:4]]
        sizes = [mm if np.isfinite(mm) and mm > 0 else 1.0 for mm in pixdim]
        source = (
            "its pixdim; all that is in mm, spacing too, rests on that. "
            f"Fix: give the true size in a spacing_table{known.lacks(path)}"
        )
        settings = ("spacing_table",)
    signs = (-1, -1, 1) if turned else (1, 1, 1)
    size = " x ".join(f"{mm:g}" for mm in sizes)
    affine = np.diag([*np.multiply(signs, sizes), 1.0])
    return dataclasses.replace(geometry, affine=affine), f"{size} mm, {source}", settings
