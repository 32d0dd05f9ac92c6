"""The image planes that pictures show, read in one pass, and their gray values."""

import math
from dataclasses import dataclass

import numpy as np

from mtf_imaging.data.description.description import Description
from mtf_imaging.data.images.sources import StoredSource, VoxelSource, read_slabs
from mtf_imaging.data.modality import is_ct
from mtf_imaging.evaluation.volume_report.planes import Point
from mtf_imaging.evaluation.volume_scores.voxels import Region

DISPLAY_HU = (-160, 240)  # the abdominal window in radiology
_PERCENTILES = (0.5, 99.5)  # for other images; excludes the few brightest voxels of vessels and artifacts
_LEAST = 256  # voxels along the longest axis that pictures show
_SAMPLE = 1 << 20  # approximate number of voxels that determine the percentiles


def sample_step(shape: tuple[int, ...]) -> int:
    """Returns the distance, in voxels along each axis, between the voxels that determine the range of an image."""
    return max(1, round((math.prod(shape) / _SAMPLE) ** (1 / len(shape))))


def display_range(sample: np.ndarray, description: Description) -> tuple[float, float]:
    """Returns the values that pictures show as black and white.

    Args:
      sample: some values of the first channel of an image.
      description: the description of the channels.

    Returns:
      The abdominal window in HU for a CT, and percentiles of the values for any other image.
    """
    if shows_ct(description):
        return DISPLAY_HU
    low, high = (float(value) for value in np.percentile(sample, _PERCENTILES))
    return low, high if high > low else low + 1.0


def shows_ct(description: Description) -> bool:
    """Returns whether pictures show a CT."""
    return is_ct(description.channels[0])


def to_gray(image: np.ndarray, bounds: tuple[float, float]) -> np.ndarray:
    """Converts an image to gray values, uint8; `bounds` are black and white."""
    low, high = bounds
    return np.rint((np.clip(image, low, high).astype(np.float32) - low) * (255 / (high - low))).astype(np.uint8)


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


def read_planes(image: VoxelSource, point: Point, description: Description) -> ImagePlanes:
    """Reads the planes of an image through one voxel, from a coarser level if the image is a pyramid.

    Args:
      image: the source of the first channel of an image, which is read once and checked.
      point: the indices of the voxel along x, y and z.
      description: the description of the channels.

    Raises:
      DataError: the source's file cannot be used.
    """
    whole, image = image.geometry.shape, image.coarser(_LEAST) if isinstance(image, StoredSource) else image
    shape = image.geometry.shape
    at_level = [np.arange(n) * size // n for n, size in zip(whole, shape, strict=True)]
    planes = [np.empty([1 if a == axis else n for a, n in enumerate(shape)], image.dtype) for axis in range(3)]
    step, sample = sample_step(shape), []
    for region, slab in read_slabs(image):
        for axis, index in enumerate(places[point[axis]] for axis, places in enumerate(at_level)):
            at = region[axis]
            if at.start <= index < at.stop:
                target = tuple(slice(0, 1) if a == axis else other for a, other in enumerate(region))
                planes[axis][target] = slab[_cut(slab.shape, axis, index - at.start)]
        voxels = slab[tuple(slice(-at.start % step, None, step) for at in region)]
        sample.append(voxels.flatten())  # a view, even of no voxels, would keep the slab
    image.check()
    near = ([[0] if a == axis else places for a, places in enumerate(at_level)] for axis in range(3))
    planes = tuple(plane[np.ix_(*each)] for plane, each in zip(planes, near, strict=True))
    return ImagePlanes(whole, point, planes, display_range(np.concatenate(sample), description))


def _cut(shape: tuple[int, ...], axis: int, index: int) -> Region:
    """Returns the region of a plane perpendicular to an axis."""
    return tuple(slice(index, index + 1) if a == axis else slice(0, n) for a, n in enumerate(shape))
