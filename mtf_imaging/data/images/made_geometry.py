"""The geometry of images in formats other than NIfTI."""

from dataclasses import dataclass
from typing import Any

import nibabel
import numpy as np

from mtf_imaging.data.images.geometry import Geometry

_SCANNER = 1  # the code of an affine in scanner coordinates


@dataclass(frozen=True)
class MadeGeometry(Geometry):
    """Geometry of an image in a format other than NIfTI, with a header created for its segmentation.

    Attributes:
      doubt: the reason that the axis directions are uncertain; None if the file states them.
      has_size: whether the file states the voxel size.
    """

    doubt: str | None = None
    has_size: bool = True

    @property
    def label_affine(self) -> np.ndarray:
        return self.affine


def made_fields(shape: tuple[int, int, int], affine: np.ndarray) -> dict[str, Any]:
    """Returns the header and the affine of a `MadeGeometry`.

    Args:
      shape: number of voxels along each stored axis.
      affine: `[4, 4]`, stored voxel index -> mm in RAS+.
    """
    header = nibabel.Nifti1Header()
    header.set_data_shape(shape)
    header.set_xyzt_units("mm")
    header.set_qform(affine, _SCANNER)
    header.set_sform(affine, _SCANNER)
    return {"header": header, "affine": np.asarray(affine, np.float64)}
