"""Regions of a grid or a volume, and the order in which a source reads its planes.

Every slice of a region has a start and a stop, and no step.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from mtf_imaging.data.sampling.grid import Grid, Region, whole_region


@dataclass(frozen=True)
class PlaneOrder:
    """The order in which the planes of a volume are read.

    Attributes:
      axis: the axis along which the planes follow each other.
      ascending: whether the positions increase.
    """

    axis: int = 2
    ascending: bool = True

    def parts(self, region: Region, thickness: int) -> Iterator[Region]:
        """Yields the slabs of a region in this order; only the last one may be thinner than `thickness` planes.

        >>> [part[2] for part in PlaneOrder(2, ascending=False).parts((slice(0, 4), slice(0, 4), slice(0, 5)), 3)]
        [slice(2, 5, None), slice(0, 2, None)]
        """
        start, stop = region[self.axis].start, region[self.axis].stop
        if self.ascending:
            slabs = (slice(at, min(at + thickness, stop)) for at in range(start, stop, thickness))
        else:
            slabs = (slice(max(at - thickness, start), at) for at in range(stop, start, -thickness))
        for slab in slabs:
            yield with_axis(region, self.axis, slab)

    def slabs(self, shape: Grid, voxels: int) -> Iterator[Region]:
        """Yields the slabs of a whole volume in this order, with at most `voxels` voxels or one plane each."""
        return self.parts(whole_region(shape), max(1, voxels * shape[self.axis] // math.prod(shape)))


ALONG_Z = PlaneOrder()


def region_shape(region: Region) -> Grid:
    """Returns the size of a region in voxels along x, y, z."""
    return tuple(at.stop - at.start for at in region)


def with_axis(region: Region, axis: int, at: slice) -> Region:
    """Returns a region with another range along one axis."""
    return (*region[:axis], at, *region[axis + 1 :])


def moved(region: Region, origin: Region) -> Region:
    """Returns a region in coordinates of an array that contains the voxels of `origin`.

    >>> moved((slice(5, 8),) * 3, (slice(4, 10),) * 3)[0]
    slice(1, 4, None)
    """
    return tuple(slice(at.start - o.start, at.stop - o.start) for at, o in zip(region, origin, strict=True))


def halves(region: Region) -> tuple[Region, Region]:
    """Returns the two halves of a region, which is divided along its longest axis.

    >>> [half[1] for half in halves((slice(0, 2), slice(4, 9), slice(0, 5)))]
    [slice(4, 6, None), slice(6, 9, None)]
    """
    shape = region_shape(region)
    axis = shape.index(max(shape))
    start, stop = region[axis].start, region[axis].stop
    middle = (start + stop) // 2
    return with_axis(region, axis, slice(start, middle)), with_axis(region, axis, slice(middle, stop))


def overlap(first: slice, second: slice) -> slice:
    """Returns the overlap of two ranges; an empty one starts and ends at the same position."""
    start = max(first.start, second.start)
    return slice(start, max(start, min(first.stop, second.stop)))
