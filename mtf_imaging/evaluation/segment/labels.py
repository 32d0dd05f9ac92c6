"""Labels of a volume, of which each process computes a region from its slice of the probabilities."""

import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mtf_imaging.data.cases.description import LITS, Description
from mtf_imaging.data.nifti.geometry import Geometry
from mtf_imaging.data.sampling.buckets import AnySampling
from mtf_imaging.data.sampling.label_region import label_slabs, labels_of_region, needed_region, region_of_slice
from mtf_imaging.data.sampling.regions import PlaneOrder, Region, moved, overlap, region_shape, whole_region
from mtf_imaging.data.sampling.sampling import Spans, way_back
from mtf_imaging.errors import DataError, ShapeError

if TYPE_CHECKING:
    from mtf_imaging.training.slices import ImageSlices

_SLAB_VOXELS = 32 << 20  # labels that process 0 receives at a time
_NOTHING = (slice(0, 0),) * 3


class SlicedLabels:
    """The labels of a volume, of which each process has a region.

    All processes call the methods in the same order.

    Args:
      slices: the slices of the processes.
      regions: the region of the volume of each process.
      labels: the labels in the region of this process, uint8 `[x, y, z]`.
      shape: number of voxels of the volume along x, y, z.
    """

    def __init__(
        self, slices: "ImageSlices", regions: Sequence[Region], labels: np.ndarray, shape: tuple[int, int, int]
    ) -> None:
        self._group, self._regions, self._labels, self._shape = slices.group, regions, labels, shape

    @property
    def is_first(self) -> bool:
        """Whether this is process 0, which receives the labels."""
        return self._group.is_first

    def slabs(self, order: PlaneOrder) -> Iterator[tuple[Region, np.ndarray]]:
        """Yields the region and the labels of each slab of the volume; in other processes than process 0, no labels.

        Args:
          order: the order of the slabs.
        """
        plane = math.prod(self._shape) // self._shape[order.axis]
        for slab in order.parts(whole_region(self._shape), max(1, _SLAB_VOXELS // plane)):
            want = [slab, *[_NOTHING] * (len(self._regions) - 1)]
            yield slab, self._group.move(self._labels, self._regions, want)

    def receive(self, order: PlaneOrder) -> Iterator[np.ndarray]:
        """Yields the labels of each slab; see `slabs`."""
        for _, labels in self.slabs(order):
            yield labels

    def send(self, order: PlaneOrder) -> None:
        """Sends the labels of this process to process 0, which calls `slabs` or `receive` with the same order."""
        for _ in self.slabs(order):
            pass


def sliced_labels(
    slices: "ImageSlices",
    probabilities: np.ndarray,
    geometry: Geometry,
    sampling: AnySampling,
    path: Path,
    description: Description = LITS,
) -> SlicedLabels:
    """Converts the probabilities of all processes to labels of a volume.

    Processes exchange the probabilities at the borders of their slices, slab by slab.

    Args:
      slices: the slices of the processes.
      probabilities: `[x, y, z, classes]` of this process, on the grid of `sampling`, of any float type; of the masks if
        the description has regions.
      geometry: the geometry of the volume.
      sampling: the voxel grid of the network, or its grids.
      path: path of the volume, for messages.
      description: the labels or regions that the network predicts.

    Raises:
      ShapeError: the probabilities have the wrong shape.
      DataError: the probabilities of a process contain NaN or infinity. Every process raises this error.
    """
    sampling, classes = sampling.choose(geometry.shape, geometry.spacing), description.num_outputs
    _check_shape(slices, probabilities, (*sampling.grid, classes), f"{path}: ", str(sampling), description)
    check_finite(slices, probabilities, path, "use a checkpoint from before the training diverged.")
    part, back = way_back(sampling.spans(geometry.shape, geometry.spacing), geometry.shape)
    grid = region_shape(part)
    own = slices.group.index
    regions = []
    for output in slices.outputs:
        covered = tuple(overlap(at, inside) for at, inside in zip(output[:3], part, strict=True))
        regions.append(region_of_slice(grid, back, moved(covered, part)))
    labels = np.empty(region_shape(regions[own]), np.uint8)
    for slabs in _rounds(regions, grid, back, classes):
        needed = [needed_region(grid, back, slab) for slab in slabs]
        want = [(*_outward(region, part), slice(0, classes)) for region in needed]
        there = slices.group.move(probabilities, slices.outputs, want)
        slab = slabs[own]
        labels[moved(slab, regions[own])] = labels_of_region(there, grid, back, slab, description)
    return SlicedLabels(slices, regions, labels, geometry.shape)


def _rounds(regions: Sequence[Region], grid: tuple[int, ...], back: Spans, classes: int) -> Iterator[list[Region]]:
    """Yields a slab of the region of each process, until all of them are computed; some may be empty."""
    slabs = [label_slabs(grid, back, region, classes) for region in regions]
    for each in itertools.zip_longest(*slabs, fillvalue=_NOTHING):
        yield list(each)


def _outward(region: Region, origin: Region) -> Region:
    """Returns a region in coordinates of the array that contains `origin`; the inverse of `moved`."""
    return tuple(slice(at.start + o.start, at.stop + o.start) for at, o in zip(region, origin, strict=True))


def _check_shape(
    slices: "ImageSlices",
    probabilities: np.ndarray,
    expected: tuple[int, ...],
    where: str,
    grid: str,
    description: Description,
) -> None:
    """Raises ShapeError if the probabilities of all processes do not have the expected shape."""
    shape = probabilities.shape
    if len(slices.outputs) > 1:
        shape = tuple(max(region[axis].stop for region in slices.outputs) for axis in range(len(slices.outputs[0])))
    if shape != expected:
        raise ShapeError(
            f"{where}the network returned probabilities of shape {shape}; {grid} needs {expected}. "
            f"Fix: return one probability per {'mask' if description.has_regions else 'class'} for every voxel."
        )


def check_finite(slices: "ImageSlices", probabilities: np.ndarray, path: Path, fix: str) -> None:
    """Raises DataError in every process if the probabilities of one process contain NaN or infinity.

    Args:
      slices: the slices of the processes.
      probabilities: the probabilities of this process.
      path: path of the image, for the message.
      fix: the fix, for the message.
    """
    # One plane at a time, because a mask of the whole array would be as large as the volume.
    is_finite = all(np.isfinite(plane).all() for plane in probabilities)
    if not slices.group.gather_numbers([is_finite]).all():
        raise DataError(f"{path}: the network returned NaN or infinity. Fix: {fix}")
