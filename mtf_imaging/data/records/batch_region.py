"""The part of a record batch that one process reads."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mtf_imaging.data.sampling.grid import Grid
from mtf_imaging.engine.layout import TensorRegion, whole_tensor
from mtf_imaging.errors import DataError

_IMAGE, _LABELS = "image", "labels"


class BatchRegion(NamedTuple):
    """The part of a record batch that one process reads.

    Attributes:
      samples: the samples of the batch.
      box: the region of the grid along x, y and z.
      image: the region of the image within these samples and this box, along batch, x, y, z and channels.
      labels: the region of the labels, along batch, x, y and z.
    """

    samples: slice
    box: tuple[slice, slice, slice]
    image: tuple[slice, ...]
    labels: tuple[slice, ...]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to read."""
        return any(part.start == part.stop for part in (self.samples, *self.box))


def batch_region(
    regions: Mapping[str, TensorRegion] | None, batch_size: int, grid: Grid, num_channels: int
) -> BatchRegion:
    """Returns the part of a batch that covers the regions of the inputs.

    Args:
      regions: the regions of "image" and "labels", whose dimensions are batch, x, y and z, and channels for the image;
        None for a process that reads everything.
      batch_size: number of samples in a batch.
      grid: voxels of a sample along x, y and z.
      num_channels: number of channels in a sample.

    Raises:
      DataError: an input does not have the sizes of the batch.
    """
    sizes = {_IMAGE: (batch_size, *grid, num_channels), _LABELS: (batch_size, *grid)}
    image, labels = (_region_of(name, expected, regions or {}) for name, expected in sizes.items())
    covered = [_cover(parts) for parts in zip(image, labels)]  # without the channels
    within = [
        tuple(slice(part.start - whole.start, part.stop - whole.start) for part, whole in zip(parts, covered))
        for parts in (image, labels)
    ]
    x, y, z = covered[1:]
    return BatchRegion(covered[0], (x, y, z), (*within[0], image[-1]), within[1])


def _region_of(name: str, expected: tuple[int, ...], regions: Mapping[str, TensorRegion]) -> tuple[slice, ...]:
    region = regions.get(name, whole_tensor(expected))
    if region.sizes != expected:
        what = f"'{name}' has the shape {list(expected)}, but the task's input has the shape {list(region.sizes)}"
        fix = "let the method `inputs` of the task return the shape of the records"
        raise DataError(f"records: {what}. Fix: {fix}.")
    return region.slices


def _cover(parts: Sequence[slice]) -> slice:
    """Returns the smallest slice that contains all nonempty ones."""
    filled = [part for part in parts if part.stop > part.start] or parts[:1]
    return slice(min(part.start for part in filled), max(part.stop for part in filled))
