"""Checks the fields of a NIfTI header that contradict each other, or that no value of a file can follow from."""

from pathlib import Path

import nibabel
import numpy as np
from nibabel.affines import voxel_sizes
from nibabel.spatialimages import HeaderDataError

from mtf_imaging.data.images.geometry import affine_in_mm, unit_mm
from mtf_imaging.data.images.lost_geometry import same_place
from mtf_imaging.data.images.voxel_values import warn_once
from mtf_imaging.errors import DataError

_SAME_SIZE = 1e-3  # relative; headers round sizes to 3 or more digits
_PLAUSIBLE_MM = (0.01, 50)  # of voxels of patients
_UNIT_NAMES = {1: "meter", 3: "micron"}


def check_numbers(header: nibabel.Nifti1Header, path: Path) -> None:
    """Checks where the voxels start and how they are scaled; call it before nibabel interprets the header.

    Raises:
      DataError: the offset of the voxels or their scale cannot be used.
    """
    offset = float(header["vox_offset"])
    if not np.isfinite(offset) or offset < 0 or 0 < offset < header.sizeof_hdr:
        raise DataError(
            f"{path}: vox_offset is {offset:g}, but the voxels of a NIfTI file start after the header of "
            f"{header.sizeof_hdr} bytes. The header is damaged. Fix: fetch the file again."
        )
    slope, inter = float(header["scl_slope"]), float(header["scl_inter"])
    if np.isnan(slope):
        warn_once(f"{path}: scl_slope is NaN; the stored numbers are read without a scale.")
    elif np.isinf(slope) or (slope and not np.isfinite(inter)):
        raise DataError(
            f"{path}: scl_slope is {slope:g} and scl_inter is {inter:g}, which give no values. Fix: fetch the file "
            "again, or write the slope and the intercept of the voxels into the header."
        )


def warn_of_conflicts(header: nibabel.Nifti1Header, path: Path) -> None:
    """Warns about an unusual unit, and about a sform that contradicts the qform or the voxel sizes in pixdim.

    Args:
      header: a header whose affine defines the axes.
      path: path of the file, for messages.
    """
    _warn_of_unit(header, path)
    if not header["sform_code"]:
        return
    unit, affine = unit_mm(header) or 1.0, affine_in_mm(header)
    sizes, pixdim = voxel_sizes(affine), np.abs(header["pixdim"][1:4].astype(np.float64)) * unit
    if not np.allclose(sizes, pixdim, rtol=_SAME_SIZE, atol=0):
        warn_once(
            f"{path}: the voxel size is {_shown(sizes)} mm in the sform, but {_shown(pixdim)} mm in pixdim; the sform "
            "is used. Fix: if the sform is wrong, correct it or set sform_code to 0."
        )
        return
    qform = _qform(header)
    shape = tuple(int(size) for size in (*header.get_data_shape(), 1, 1)[:3])
    if qform is not None:
        qform[:3] *= unit
        if not same_place(qform, affine, shape):
            warn_once(
                f"{path}: its sform (code {int(header['sform_code'])}) and its qform (code "
                f"{int(header['qform_code'])}) put the voxels in different places: the first voxel lies at "
                f"{_place(affine)} mm or at {_place(qform)} mm, with the axes {_codes(affine)} or {_codes(qform)}; the "
                "sform is used. Fix: if the sform is wrong, set sform_code to 0."
            )


def _warn_of_unit(header: nibabel.Nifti1Header, path: Path) -> None:
    code, unit = int(header["xyzt_units"]) & 7, unit_mm(header)
    if unit is None:
        warn_once(f"{path}: the code {code} of its unit of length is not defined in NIfTI; lengths are read as mm.")
    elif code in _UNIT_NAMES:
        sizes = voxel_sizes(affine_in_mm(header))
        if min(sizes) < _PLAUSIBLE_MM[0] or max(sizes) > _PLAUSIBLE_MM[1]:
            warn_once(
                f"{path}: its unit of length is {_UNIT_NAMES[code]}, so voxels have {_shown(sizes)} mm, which is "
                "unusual. Fix: if its lengths are in mm, set xyzt_units to 2."
            )


def _qform(header: nibabel.Nifti1Header) -> np.ndarray | None:
    """Returns the affine of the qform, or None if it is not set or its quaternion is invalid."""
    try:
        qform = header.get_qform(coded=True)[0]
    except (HeaderDataError, ValueError):
        return None
    return qform if qform is not None and np.isfinite(qform).all() else None


def _shown(sizes: np.ndarray) -> str:
    return " x ".join(f"{mm:g}" for mm in np.round(sizes, 6))


def _place(affine: np.ndarray) -> str:
    return ", ".join(f"{mm:g}" for mm in np.round(affine[:3, 3], 3))


def _codes(affine: np.ndarray) -> str:
    return "".join(code or "?" for code in nibabel.aff2axcodes(affine))
