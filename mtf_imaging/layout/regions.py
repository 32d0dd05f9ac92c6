"""The region of a tensor that one process computes."""

from typing import NamedTuple


class TensorRegion(NamedTuple):
    """The region of a tensor that one process computes: the slices of all its processors.

    Attributes:
      sizes: the sizes of the whole tensor.
      slices: a Python slice with start and stop for each dimension, as returned by `Program.region`.
    """

    sizes: tuple[int, ...]
    slices: tuple[slice, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the region; 0 along a dimension of which the process has no elements."""
        return tuple(part.stop - part.start for part in self.slices)


def whole_tensor(sizes: tuple[int, ...]) -> TensorRegion:
    """Returns the region that is the whole tensor.

    >>> whole_tensor((2, 8)).slices
    (slice(0, 2, None), slice(0, 8, None))
    """
    return TensorRegion(tuple(sizes), tuple(slice(0, size) for size in sizes))
