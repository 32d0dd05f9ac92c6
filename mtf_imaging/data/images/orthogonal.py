"""Refuses affines whose axes are not perpendicular, as in scans with a tilted gantry."""

import itertools
from pathlib import Path

import numpy as np

from mtf_imaging.errors import DataError

# In degrees. Rounding an affine to four digits stays below it, and over 300 mm it amounts to 0.5 mm, less than a
# voxel in most scans.
_TOLERANCE = 0.1


def check_orthogonal(affine: np.ndarray, path: Path) -> None:
    """Checks that the axes of an affine are perpendicular.

    All later steps (resampling, distances and volumes) assume that voxels are boxes, unlike in a sheared grid.

    Args:
      affine: `[4, 4]`, stored voxel index -> mm. No column is 0.
      path: path of the image, for the message.

    Raises:
      DataError: the angle between two axes differs from 90 degrees by more than 0.1 degrees.
    """
    axes = affine[:3, :3] / np.linalg.norm(affine[:3, :3], axis=0)
    pairs = list(itertools.combinations(range(3), 2))
    angles = np.degrees([np.arcsin(np.clip(axes[:, i] @ axes[:, j], -1, 1)) for i, j in pairs])
    worst = int(np.abs(angles).argmax())
    if abs(angles[worst]) <= _TOLERANCE:
        return
    first, second = ("ijk"[number] for number in pairs[worst])
    raise DataError(
        f"{path}: its affine is sheared: the angle between the voxel axes {first} and {second} is "
        f"{90 - angles[worst]:.2f} degrees instead of 90, for instance because the gantry was tilted by "
        f"{abs(angles[worst]):.2f} degrees. Fix: resample the image to a grid with perpendicular axes, for example "
        "with dcm2niix from the DICOM files, or with nibabel.processing.resample_to_output; resample its mask to the "
        "same grid. If the sform of a NIfTI file is wrong and its qform is right, set sform_code to 0."
    )
