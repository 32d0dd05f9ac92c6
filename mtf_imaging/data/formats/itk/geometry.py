"""The geometry of NRRD and MetaImage files: positions in LPS become the affine in RAS+, and back."""

import dataclasses

import numpy as np

from mtf_imaging.data.images.geometry import Geometry, MadeGeometry

_LPS_TO_RAS = np.array([-1.0, -1.0, 1.0])


@dataclasses.dataclass(frozen=True)
class Place:
    """The position of a volume as ITK states it, in LPS.

    Attributes:
      origin: position of the first voxel in mm.
      spacing: distance in mm between voxels along each axis.
      direction: the matrix whose columns are the directions of the axes, in row-major order.
    """

    origin: tuple[float, ...]
    spacing: tuple[float, ...]
    direction: tuple[float, ...]

    @property
    def affine(self) -> np.ndarray:
        """`[4, 4]` float64, stored voxel index -> mm in RAS+."""
        affine = np.eye(4)
        affine[:3, :3] = _LPS_TO_RAS[:, np.newaxis] * np.reshape(self.direction, (3, 3)) * self.spacing
        affine[:3, 3] = _LPS_TO_RAS * self.origin
        return affine


@dataclasses.dataclass(frozen=True, kw_only=True)
class ItkGeometry(MadeGeometry):
    """Geometry of a NRRD or MetaImage file.

    Attributes:
      place: the position that the file states; its segmentation states the same numbers.
    """

    place: Place


def place_of(geometry: Geometry) -> Place:
    """Returns the position of a segmentation with the geometry of its volume, which may have any format."""
    if isinstance(geometry, ItkGeometry) and np.array_equal(geometry.affine, geometry.place.affine):
        return geometry.place
    matrix = _LPS_TO_RAS[:, np.newaxis] * geometry.affine[:3, :3]
    spacing = np.linalg.norm(matrix, axis=0)
    origin = _LPS_TO_RAS * geometry.affine[:3, 3]
    return Place(tuple(origin.tolist()), tuple(spacing.tolist()), tuple((matrix / spacing).ravel().tolist()))
