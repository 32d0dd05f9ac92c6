"""The nonzero voxels of an image, to which nnU-Net crops it.

The box contains all voxels that are not 0 in some channel (Isensee et al. 2021, nnU-Net, Nature Methods 18, 203-211;
`nnunetv2/preprocessing/cropping/cropping.py`). With filled holes, these voxels are the mask in which nnU-Net computes
z-scores. They are 0 beyond it.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import scipy  # loads its modules when they are used

from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.images.sources import ImageSource, VoxelSource, read_slabs
from mtf_imaging.data.sampling.grid import Region, whole_region
from mtf_imaging.engine.layout.regions import absolute

# A value that is not 0, and that is exact and vanishes when a mean is subtracted: a zero in the mask is normalized.
_TINY = np.float32(2.0**-100)


class CroppedSource:
    """A region of another source; see `VoxelSource`.

    Args:
      source: the other source.
      region: the region.
      geometry: the geometry of the region.
      mask: the voxels of the region whose zeros are read as a tiny number, bool `[x, y, z]`; None for none.
    """

    def __init__(self, source: VoxelSource, region: Region, geometry: Geometry, mask: np.ndarray | None = None) -> None:
        self._source, self._region, self._mask = source, region, mask
        self.path, self.order, self.is_stream = source.path, source.order, source.is_stream
        self.geometry = geometry
        self.dtype = source.dtype if mask is None else np.dtype(np.float32)
        self.check, self.close = source.check, source.close

    def read(self, region: Region) -> np.ndarray:
        values = self._source.read(absolute(region, self._region))
        if self._mask is None:
            return values
        values = values.astype(np.float32)
        values[(values == 0) & self._mask[region]] = _TINY
        return values


def crop_to_nonzero(image: ImageSource, fill_holes: bool) -> tuple[Region, ImageSource]:
    """Crops an image to its nonzero voxels. Each channel is read once.

    Args:
      image: the image.
      fill_holes: whether zeros in the mask are read as a tiny number, so that only voxels beyond it are 0.

    Returns:
      The region, which is the whole image if it is 0 everywhere, and the image in this region.
    """
    shape = image.geometry.shape
    mask = np.zeros(shape, bool) if fill_holes else None
    found = [np.zeros(n, bool) for n in shape]
    for source in image.channels:
        for region, values in read_slabs(source):
            mark_nonzero(found, region, values)
            if mask is not None:
                mask[region] |= values != 0
    crop = tuple(slice(*ends(planes)) for planes in found) if found[0].any() else whole_region(shape)
    if mask is not None:
        mask = scipy.ndimage.binary_fill_holes(mask[crop])
    geometry = image.geometry.cropped(crop)
    channels = tuple(CroppedSource(source, crop, geometry, mask) for source in image.channels)
    return crop, dataclasses.replace(image, channels=channels, geometry=geometry)


def mark_nonzero(planes: Sequence[np.ndarray], region: Region, values: np.ndarray) -> None:
    """Marks the planes perpendicular to x, y and z in which a region has a value that is not 0.

    Args:
      planes: bool `[n]` for each axis, which is changed.
      region: the region.
      values: its values.
    """
    is_nonzero = values != 0
    for axis, (own, at) in enumerate(zip(planes, region, strict=True)):
        own[at] |= is_nonzero.any(tuple(other for other in range(3) if other != axis))


def ends(used: np.ndarray) -> tuple[int, int]:
    """Returns the first used plane and the one after the last; both 0 without any."""
    (planes,) = np.nonzero(used)
    return (int(planes[0]), int(planes[-1]) + 1) if planes.size else (0, 0)
