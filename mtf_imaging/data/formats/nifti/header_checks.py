"""Checks NIfTI headers for contradictory fields and unusable numbers."""

from collections.abc import Sequence
from pathlib import Path

import nibabel
import numpy as np
from nibabel.spatialimages import HeaderDataError

from mtf_imaging.data.images.geometry import Geometry, unit_mm
from mtf_imaging.data.images.lost_geometry import same_place
from mtf_imaging.data.images.voxel_values import warn_once
from mtf_imaging.files.reading import Fault

_SAME_SIZE = 1e-3  # relative; headers round sizes to 3 or more digits
_PLAUSIBLE_MM = (0.01, 50)  # plausible voxel sizes of patients
_UNITS = {1: "m", 2: "mm", 3: "µm"}  # by code


def check_numbers(header: nibabel.Nifti1Header, path: Path) -> int:
    """Checks the offset and the scale of the voxels; call it before nibabel interprets the header.

    Returns:
      The offset.

    Raises:
      Fault: the offset of the voxels or their scale cannot be used.
    """
    offset = float(header["vox_offset"])
    if not np.isfinite(offset) or offset < 0 or 0 < offset < header.sizeof_hdr:
        what = f"but the voxels of a NIfTI file start after the header of {header.sizeof_hdr} bytes"
        raise Fault(f"vox_offset is {offset:g}, {what}")
    slope, inter = float(header["scl_slope"]), float(header["scl_inter"])
    if np.isnan(slope):
        warn_once(f"{path}: scl_slope is NaN; the stored numbers are read without a scale.")
    elif np.isinf(slope) or (slope and not np.isfinite(inter)):
        raise Fault(f"scl_slope is {slope:g} and scl_inter is {inter:g}, which give no values")
    return int(offset)


def warn_of_conflicts(geometry: Geometry, path: Path) -> None:
    """Warns about an unusual unit, and about an sform that contradicts the qform or the voxel sizes in pixdim.

    Args:
      geometry: the geometry of a file whose header defines the axes.
      path: path of the file, for messages.
    """
    header, affine = geometry.header, geometry.file_affine
    _warn_of_unit(geometry, path)
    if not header["sform_code"]:
        return
    sizes, pixdim = geometry.stored_spacing, geometry.header_spacing
    if not np.allclose(sizes, pixdim, rtol=_SAME_SIZE, atol=0):
        other = "pixdim, as in the qform" if header["qform_code"] else "pixdim"
        what = f"the voxel size is {_shown(sizes)} mm in the sform, but {_shown(pixdim)} mm in {other}"
        fix = "if the sform is wrong, correct it or set sform_code to 0"
        warn_once(f"{path}: {what}; the sform is used. Fix: {fix}.")
        return
    qform = _qform(header)
    if qform is not None:
        qform[:3] *= unit_mm(header) or 1.0
        if not same_place(qform, affine, geometry.stored_shape):
            codes = (int(header[f"{name}_code"]) for name in ("sform", "qform"))
            what = "its sform (code {}) and its qform (code {}) put the voxels in different places".format(*codes)
            places = f"the first voxel lies at {_place(affine)} mm or at {_place(qform)} mm"
            axes = f"with the axes {_codes(affine)} or {_codes(qform)}; the sform is used"
            warn_once(f"{path}: {what}: {places}, {axes}. Fix: if the sform is wrong, set sform_code to 0.")


def _warn_of_unit(geometry: Geometry, path: Path) -> None:
    """Warns about a unit that is not defined, or that gives voxels of an unusual size for a patient."""
    code, sizes = int(geometry.header["xyzt_units"]) & 7, geometry.stored_spacing
    if unit_mm(geometry.header) is None:
        warn_once(f"{path}: the code {code} of its unit of length is not defined in NIfTI; lengths are read as mm.")
    elif min(sizes) < _PLAUSIBLE_MM[0] or max(sizes) > _PLAUSIBLE_MM[1]:
        what = f"its unit of length is {_UNITS.get(code, 'mm')}, so voxels have {_shown(sizes)} mm, which is unusual"
        other = 2 if code in (1, 3) else 1 if min(sizes) < _PLAUSIBLE_MM[0] else 3
        warn_once(f"{path}: {what}. Fix: if its lengths are in {_UNITS[other]}, set xyzt_units to {other}.")


def _qform(header: nibabel.Nifti1Header) -> np.ndarray | None:
    """Returns the affine of the qform, or None if it is not set or its quaternion is invalid."""
    try:
        qform = header.get_qform(coded=True)[0]
    except (HeaderDataError, ValueError):
        return None
    return qform if qform is not None and np.isfinite(qform).all() else None


def _shown(sizes: Sequence[float]) -> str:
    return " x ".join(f"{mm:g}" for mm in np.round(sizes, 6))


def _place(affine: np.ndarray) -> str:
    return ", ".join(f"{mm:g}" for mm in np.round(affine[:3, 3], 3))


def _codes(affine: np.ndarray) -> str:
    return "".join(code or "?" for code in nibabel.aff2axcodes(affine))
