"""Read CT volumes and segmentations from NIfTI files, and write segmentations back beside them.

Known faults of public CT sets are repaired with a logged warning where the right value is known; what cannot be known
is an error that names the file.
"""

import dataclasses
import functools
import logging
import zlib
from pathlib import Path

import nibabel
import numpy as np
from nibabel.filebasedimages import ImageFileError
from nibabel.spatialimages import HeaderDataError

from mtf_imaging.data.atomic import atomic_path
from mtf_imaging.data.geometry import Geometry
from mtf_imaging.data.orientation import y_points_back
from mtf_imaging.errors import DataError

NUM_CLASSES = 3  # 0 background, 1 liver, 2 lesion
AIR_HU = -1024
_MAX_HU = 32767
_AFFINE_TOLERANCE = 1e-2  # mm
_log = logging.getLogger(__name__)


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


def read_volume(path: str | Path) -> Volume:
    """Reads a CT.

    Args:
      path: a .nii or .nii.gz file; a fourth axis of size 1 is dropped.

    Returns:
      The volume. Where the affine is the identity, which is what a file has that lost its geometry, the axes are told
      from the image, with a warning: RAS, or LPS where the spine says so. NaN voxels and values outside -1024..32767
      are replaced by the nearest of these bounds (NaN: air), with a warning.

    Raises:
      DataError: the file is missing, damaged, no NIfTI, not one 3-D volume, or its affine does not say how the axes
        lie.
    """
    path = Path(path)
    array, geometry = _read(path)
    hu = _repair_hu(array, path)
    if np.allclose(geometry.affine, np.eye(4)):
        turned = y_points_back(hu)
        axes = "LPS, because the spine shows that its second axis points to the back" if turned else "RAS"
        _warn_once(
            f"{path}: its affine is the identity, so it says neither spacing nor axes; taken as 1 mm and {axes}."
        )
        if turned:
            geometry = dataclasses.replace(geometry, affine=np.diag([-1.0, -1.0, 1.0, 1.0]))
    return Volume(geometry.to_canonical(hu), geometry, path)


def read_labels(path: str | Path, volume: Volume) -> np.ndarray:
    """Reads the segmentation of `volume`.

    Args:
      path: a .nii or .nii.gz file of labels 0 background, 1 liver, 2 lesion.
      volume: the volume it belongs to.

    Returns:
      uint8 `[x, y, z]`, voxel for voxel on `volume.hu`. A mask stored along other axes of the same voxels is turned;
      one whose affine contradicts its volume's is laid on it voxel for voxel, with a warning.

    Raises:
      DataError: as `read_volume`; or the mask has another shape than its volume, or labels other than 0, 1, 2.
    """
    path = Path(path)
    array, geometry = _read(path)
    own = volume.geometry
    same_voxels = geometry.stored_shape == own.stored_shape
    if same_voxels and np.allclose(geometry.affine, own.file_affine, atol=_AFFINE_TOLERANCE):
        pass
    elif geometry.shape == own.shape and np.allclose(
        geometry.canonical_affine, own.canonical_affine, atol=_AFFINE_TOLERANCE
    ):
        own = geometry
    elif same_voxels:
        _warn_once(f"{path}: its affine is not that of {volume.path}; the mask is laid on the volume voxel for voxel.")
    else:
        raise DataError(
            f"{path}: this mask has shape {geometry.stored_shape}, its volume {volume.path} has shape "
            f"{own.stored_shape}. Fix: give the mask that was drawn on this volume."
        )
    return own.to_canonical(_check_labels(array, path))


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
    stored = np.ascontiguousarray(geometry.to_stored(labels), np.uint8).reshape(header.get_data_shape())
    image_class = nibabel.Nifti2Image if isinstance(header, nibabel.Nifti2Header) else nibabel.Nifti1Image
    with atomic_path(path) as temporary:
        nibabel.save(image_class(stored, geometry.file_affine, header), temporary)


def _read(path: Path) -> tuple[np.ndarray, Geometry]:
    """Reads the array as stored, of three axes, and its geometry."""
    if not path.is_file():
        raise DataError(f"{path}: there is no such file.")
    try:
        image = nibabel.load(path)
        if not isinstance(image, nibabel.Nifti1Image):
            raise ImageFileError(f"a {type(image).__name__}")
        array = np.asarray(image.dataobj)
    # What nibabel, gzip and numpy raise for damaged files, ValueError being a short uncompressed one.
    except (ImageFileError, HeaderDataError, OSError, EOFError, zlib.error, ValueError) as error:
        raise DataError(
            f"{path}: cannot be read as NIfTI; truncated or another format? ({error}). Fix: fetch it again."
        ) from error
    if array.dtype.kind not in "iuf":
        raise DataError(
            f"{path}: voxels are {array.dtype}, not plain numbers. Fix: store HU or labels as one number a voxel."
        )
    if array.ndim < 3 or any(size != 1 for size in array.shape[3:]):
        raise DataError(f"{path}: has shape {array.shape}, not that of one 3-D volume. Fix: store one volume a file.")
    affine = np.asarray(image.affine, np.float64)
    if not np.all(np.isfinite(affine)) or abs(np.linalg.det(affine[:3, :3])) < 1e-9:
        raise DataError(
            f"{path}: its affine {affine[:3].tolist()} does not say how the axes lie. Fix: repair the header."
        )
    return array.reshape(array.shape[:3]), Geometry(image.header.copy(), affine)


def _repair_hu(array: np.ndarray, path: Path) -> np.ndarray:
    if array.dtype == np.int16 and array.min() >= AIR_HU:
        return array
    nan = np.isnan(array) if array.dtype.kind == "f" else np.zeros((), bool)
    outside = (array < AIR_HU) | (array > _MAX_HU)
    for count, what in ((np.count_nonzero(nan), "NaN"), (np.count_nonzero(outside), f"outside {AIR_HU}..{_MAX_HU} HU")):
        if count:
            _warn_once(
                f"{path}: {count} of {array.size} voxels are {what}; replaced by {AIR_HU} HU or the nearest bound."
            )
    array = np.where(nan, AIR_HU, array) if nan.any() else array
    return np.rint(np.clip(array, AIR_HU, _MAX_HU)).astype(np.int16)


def _check_labels(array: np.ndarray, path: Path) -> np.ndarray:
    labels = array
    if array.dtype.kind == "f":
        labels = np.rint(np.nan_to_num(array, nan=-1.0))
        if not np.allclose(array, labels, atol=1e-3):
            raise DataError(f"{path}: holds labels that are no integers. Fix: store 0 background, 1 liver, 2 lesion.")
        _warn_once(f"{path}: labels are stored as {array.dtype}; read as integers.")
    low, high = labels.min(), labels.max()
    if low < 0 or high >= NUM_CLASSES:
        raise DataError(
            f"{path}: holds labels from {int(low)} to {int(high)}, not 0..{NUM_CLASSES - 1}. "
            f"Fix: map them to 0 background, 1 liver, 2 lesion."
        )
    return labels.astype(np.uint8)


@functools.cache
def _warn_once(message: str) -> None:
    _log.warning(message)
