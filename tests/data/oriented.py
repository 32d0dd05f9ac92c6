"""Arrays in canonical axes as files that store them along other axes."""

import nibabel
import numpy as np
from nibabel import orientations


def turned(canonical, codes, affine):
    """Returns an array `[x, y, z]` as it is stored along `codes`, and the affine of the stored array."""
    turn = orientations.ornt_transform(orientations.axcodes2ornt("RAS"), orientations.axcodes2ornt(codes))
    stored = np.ascontiguousarray(orientations.apply_orientation(canonical, turn))
    return stored, affine @ orientations.inv_ornt_aff(turn, canonical.shape[:3])


def store_nifti(path, canonical, codes, affine, dtype=None):
    """Writes a NIfTI file that is stored along `codes`; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    stored, stored_affine = turned(canonical, codes, affine)
    nibabel.save(nibabel.Nifti1Image(stored.astype(dtype or stored.dtype), stored_affine), path)
    return path
