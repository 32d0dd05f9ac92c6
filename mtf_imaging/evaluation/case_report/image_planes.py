"""Reads the image planes that pictures show in one pass."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mtf_imaging.data.description.description import Description
from mtf_imaging.data.images.sources import VoxelSource
from mtf_imaging.data.sampling.grid import whole_region
from mtf_imaging.evaluation.case_report.display import display_range, sample_step, shown_channel
from mtf_imaging.evaluation.case_report.planes import Point
from mtf_imaging.evaluation.scoring.voxels import Region

_SLAB_VOXELS = 1 << 22


@dataclass(frozen=True)
class ImagePlanes:
    """The planes of an image through one voxel; other voxels cannot be read.

    Attributes:
      shape: the image size in voxels along x, y and z.
      point: the voxel.
      planes: the plane perpendicular to each axis, one voxel thick.
      bounds: the values that pictures show as black and white.
    """

    shape: tuple[int, int, int]
    point: Point
    planes: tuple[np.ndarray, np.ndarray, np.ndarray]
    bounds: tuple[float, float]

    def __getitem__(self, region: Region, /) -> np.ndarray:
        """Returns the voxels of a region that lies in one of the planes."""
        for axis, (at, index) in enumerate(zip(region, self.point, strict=True)):
            if (at.start, at.stop) == (index, index + 1):
                return self.planes[axis][*region[:axis], slice(0, 1), *region[axis + 1 :]]
        raise IndexError(f"{region}: this region does not lie in a plane through the voxel {self.point}")


def read_planes(image: np.ndarray | VoxelSource, point: Point, description: Description) -> ImagePlanes:
    """Reads the planes of an image through one voxel.

    Args:
      image: the image `[x, y, z]` or `[x, y, z, channels]`, whose first channel pictures show, or the source of this
        channel, which is read once and checked.
      point: the indices of the voxel along x, y and z.
      description: the description of the channels.

    Raises:
      DataError: the source's file cannot be used.
    """
    if isinstance(image, np.ndarray):
        channel = shown_channel(image)
        cuts = (channel[_cut(channel.shape, axis, index)] for axis, index in enumerate(point))
        return ImagePlanes(channel.shape, point, tuple(cuts), display_range(channel, description))
    shape = image.geometry.shape
    planes = [np.empty([1 if a == axis else n for a, n in enumerate(shape)], image.dtype) for axis in range(3)]
    step, sample = sample_step(shape), []
    for region, slab in _slabs(image):
        for axis, index in enumerate(point):
            at = region[axis]
            if at.start <= index < at.stop:
                target = tuple(slice(0, 1) if a == axis else other for a, other in enumerate(region))
                planes[axis][target] = slab[_cut(slab.shape, axis, index - at.start)]
        sample.append(slab[tuple(slice(-at.start % step, None, step) for at in region)].ravel())
    image.check()
    return ImagePlanes(shape, point, tuple(planes), display_range(np.concatenate(sample), description, step=1))


def _slabs(image: VoxelSource) -> Iterator[tuple[Region, np.ndarray]]:
    shape = image.geometry.shape
    thickness = max(1, _SLAB_VOXELS * shape[image.order.axis] // math.prod(shape))
    for region in image.order.parts(whole_region(shape), thickness):
        yield region, image.read(region)


def _cut(shape: tuple[int, ...], axis: int, index: int) -> Region:
    """Returns the region of a plane perpendicular to an axis."""
    return tuple(slice(index, index + 1) if a == axis else slice(0, n) for a, n in enumerate(shape))
