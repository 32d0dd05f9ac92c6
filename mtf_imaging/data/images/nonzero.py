"""The nonzero voxels of an image, to which nnU-Net crops it.

The box contains all voxels that are not 0 in some channel. With filled holes, these voxels are the mask in which
nnU-Net computes z-scores. They are 0 beyond it.
"""

import dataclasses
from pathlib import Path

import numpy as np
import scipy.ndimage

from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.images.sources import ImageSource, VoxelSource, read_slabs
from mtf_imaging.data.sampling.grid import Region, whole_region
from mtf_imaging.data.sampling.regions import PlaneOrder
from mtf_imaging.engine.layout.regions import absolute

# A value that is not 0, and that is exact and vanishes when a mean is subtracted: a zero in the mask is normalized.
_TINY = np.float32(2.0**-100)


@dataclasses.dataclass(frozen=True)
class CroppedSource:
    """A region of another source; see `VoxelSource`.

    Attributes:
      source: the other source.
      region: the region.
      geometry: the geometry of the region.
      mask: the voxels of the region whose zeros are read as a tiny number, bool `[x, y, z]`; None for none.
    """

    source: VoxelSource
    region: Region
    geometry: Geometry
    mask: np.ndarray | None = None

    @property
    def path(self) -> Path:
        return self.source.path

    @property
    def dtype(self) -> np.dtype:
        return self.source.dtype if self.mask is None else np.dtype(np.float32)

    @property
    def order(self) -> PlaneOrder:
        return self.source.order

    @property
    def is_stream(self) -> bool:
        return self.source.is_stream

    def read(self, region: Region) -> np.ndarray:
        values = self.source.read(absolute(region, self.region))
        if self.mask is None:
            return values
        values = values.astype(np.float32)
        values[(values == 0) & self.mask[region]] = _TINY
        return values

    def check(self) -> None:
        self.source.check()

    def close(self) -> None:
        self.source.close()


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
    found = [np.zeros(n, bool) for n in shape]  # the planes along each axis with a voxel that is not 0
    for source in image.channels:
        for region, values in read_slabs(source):
            is_nonzero = values != 0
            for axis, planes in enumerate(found):
                planes[region[axis]] |= is_nonzero.any(tuple(other for other in range(3) if other != axis))
            if mask is not None:
                mask[region] |= is_nonzero
    crop = whole_region(shape)
    if found[0].any():
        ends = ((int(planes.argmax()), len(planes) - int(planes[::-1].argmax())) for planes in found)
        crop = tuple(slice(*pair) for pair in ends)
    if mask is not None:
        mask = scipy.ndimage.binary_fill_holes(mask[crop])
    geometry = image.geometry.cropped(crop)
    channels = tuple(CroppedSource(source, crop, geometry, mask) for source in image.channels)
    return crop, dataclasses.replace(image, channels=channels, geometry=geometry)
