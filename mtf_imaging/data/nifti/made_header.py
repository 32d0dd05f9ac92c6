"""The geometry of images in other formats than NIfTI."""

import nibabel
import numpy as np

from mtf_imaging.data.nifti.geometry import Geometry

_SCANNER = 1  # the code of an affine that leads to the coordinates of the scanner
_UNKNOWN = 0


def made_geometry(shape: tuple[int, int, int], affine: np.ndarray, is_lost: bool = False) -> Geometry:
    """Returns a geometry with a NIfTI header made for it, so that segmentations can be written as NIfTI.

    Args:
      shape: number of voxels along each stored axis.
      affine: `[4, 4]`, stored voxel index -> mm in RAS+.
      is_lost: whether the affine does not define the directions of the axes; the header then says so, too.
    """
    header = nibabel.Nifti1Header()
    header.set_data_shape(shape)
    header.set_xyzt_units("mm")
    code = _UNKNOWN if is_lost else _SCANNER
    header.set_zooms(nibabel.affines.voxel_sizes(affine))
    header.set_qform(affine, code)
    header.set_sform(affine, code)
    return Geometry(header, np.asarray(affine, np.float64))
