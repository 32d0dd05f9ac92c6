"""Determines the geometry of an image, even if its header lacks it."""

import dataclasses
from pathlib import Path

import nibabel
import numpy as np

from mtf_imaging.data.images.geometry import Geometry, MadeGeometry, unit_mm
from mtf_imaging.data.images.spacing_table import SpacingTable

# In voxels. Rounding in headers stays below it, and any meaningful difference in orientation or position exceeds it.
_SAME_PLACE = 0.5


def same_place(affine: np.ndarray, other: np.ndarray, shape: tuple[int, int, int]) -> bool:
    """Returns whether two affines agree on the corners of a volume, within half of the smallest voxel side."""
    corners = np.stack(np.meshgrid(*((0, n - 1) for n in shape)), axis=-1).reshape(-1, 3)
    moved = nibabel.affines.apply_affine(affine, corners) - nibabel.affines.apply_affine(other, corners)
    return bool(np.linalg.norm(moved, axis=1).max() <= _SAME_PLACE * min(nibabel.affines.voxel_sizes(other)))


def why_lost(geometry: Geometry) -> str | None:
    """Returns the reason that a header does not define the axes, or None if it does."""
    if isinstance(geometry, MadeGeometry):
        return geometry.doubt
    if np.allclose(geometry.header.get_best_affine(), np.eye(4)):  # in any unit
        return "its affine is the identity and does not define the axes"
    if not geometry.header["sform_code"] and not geometry.header["qform_code"]:
        return "it has no affine that defines the axes (sform and qform codes are 0)"
    return None


def with_known_size(
    geometry: Geometry, path: Path, known: SpacingTable, turned: bool
) -> tuple[Geometry, str, tuple[str, ...]]:
    """Returns the geometry with the voxel size of the table or the header, its description, and related settings."""
    sizes, settings = known.lookup(path), ()
    source, origin = f"from {known.path}", np.zeros(3)
    if isinstance(geometry, MadeGeometry):  # only the axis directions are uncertain
        origin = geometry.affine[:3, 3]
        if sizes is None and geometry.has_size:
            sizes, source = geometry.stored_spacing, "from its metadata"
    if sizes is None:
        unit = unit_mm(geometry.header) or 1.0
        pixdim = [abs(float(size)) * unit for size in geometry.header["pixdim"][1:4]]
        sizes = [mm if np.isfinite(mm) and mm > 0 else 1.0 for mm in pixdim]
        why = "because its metadata states no size" if isinstance(geometry, MadeGeometry) else "from its pixdim"
        fix = f"Fix: give the true size in a spacing_table{known.missing_row(path)}"
        source = f"{why}; spacing and all results in mm depend on this size. {fix}"
        settings = ("spacing_table",)
    signs = (-1, -1, 1) if turned else (1, 1, 1)
    size = " x ".join(f"{mm:g}" for mm in sizes)
    affine = np.diag([*np.multiply(signs, sizes), 1.0])
    affine[:3, 3] = signs * origin
    return dataclasses.replace(geometry, affine=affine), f"voxels of {size} mm, {source}", settings
