"""Regions of an array: one Python slice with start and stop for each axis. Pure Python."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

Region = tuple[slice, ...]


def whole_region(sizes: Sequence[int]) -> Region:
    """Returns the region that covers an array."""
    return tuple(slice(0, size) for size in sizes)


def region_shape(region: Region) -> tuple[int, ...]:
    """Returns the number of elements in a region along each axis.

    >>> region_shape((slice(2, 5), slice(0, 4)))
    (3, 4)
    """
    return tuple(part.stop - part.start for part in region)


def intersection(region: Region, other: Region) -> Region | None:
    """Returns the intersection of two regions, or None if it is empty.

    >>> intersection((slice(2, 5), slice(0, 4)), (slice(4, 9), slice(1, 2)))
    (slice(4, 5, None), slice(1, 2, None))
    """
    pairs = list(zip(region, other, strict=True))
    common = tuple(slice(max(a.start, b.start), min(a.stop, b.stop)) for a, b in pairs)
    return common if all(part.start < part.stop for part in common) else None


def relative_to(region: Region, outer: Region) -> Region:
    """Returns the position of a region within a larger one.

    >>> relative_to((slice(4, 5),), (slice(3, 9),))
    (slice(1, 2, None),)
    """
    pairs = zip(region, outer, strict=True)
    return tuple(slice(part.start - whole.start, part.stop - whole.start) for part, whole in pairs)


def absolute(region: Region, outer: Region) -> Region:
    """Returns a region, given by its position within a larger one, as a position in the array; see `relative_to`.

    >>> absolute((slice(1, 2),), (slice(3, 9),))
    (slice(4, 5, None),)
    """
    pairs = zip(region, outer, strict=True)
    return tuple(slice(part.start + whole.start, part.stop + whole.start) for part, whole in pairs)


def mirrored(region: Region, sizes: Sequence[int], axes: Collection[int]) -> Region:
    """Returns the position of a region after a flip of the whole array along some axes.

    >>> mirrored((slice(0, 3), slice(0, 3)), (8, 8), [0])
    (slice(5, 8, None), slice(0, 3, None))
    """
    return tuple(
        slice(size - part.stop, size - part.start) if axis in axes else part
        for axis, (part, size) in enumerate(zip(region, sizes, strict=True))
    )


class TensorRegion(NamedTuple):
    """The region of a tensor that one process computes: the slices of all its processors.

    Attributes:
      sizes: the sizes of the whole tensor.
      slices: a Python slice with start and stop for each dimension, as returned by `Program.region`.
    """

    sizes: tuple[int, ...]
    slices: Region

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the region; 0 along a dimension without elements in this process."""
        return region_shape(self.slices)


def whole_tensor(sizes: tuple[int, ...]) -> TensorRegion:
    """Returns the region that covers a whole tensor.

    >>> whole_tensor((2, 8)).slices
    (slice(0, 2, None), slice(0, 8, None))
    """
    return TensorRegion(tuple(sizes), whole_region(sizes))
