"""Labels of a volume; each process computes a region from its slice of the probabilities."""

import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.sampling.buckets import AnySampling
from mtf_imaging.data.sampling.grid import Grid, Region, format_grid, whole_region
from mtf_imaging.data.sampling.label_region import label_slabs, labels_of_region, needed_region, region_of_slice
from mtf_imaging.data.sampling.regions import PlaneOrder, moved, overlap, region_shape
from mtf_imaging.data.sampling.sampling import Spans, way_back
from mtf_imaging.engine.layout.regions import absolute
from mtf_imaging.errors import DataError, ShapeError
from mtf_imaging.evaluation.volume_scores.compact_labels import CompactLabels
from mtf_imaging.inference.network import Slices, whole_shape

if TYPE_CHECKING:
    from mtf_imaging.engine.meshes.group import Group

_SLAB_VOXELS = 16 << 20  # labels that process 0 receives at once
_NOTHING = (slice(0, 0),) * 3


class SlicedLabels:
    """The labels of a volume; each process has a region.

    All processes call the methods in the same order.

    Args:
      group: the processes.
      regions: each process's region of the volume.
      labels: the labels in the region of this process, uint8 `[x, y, z]`.
      shape: number of voxels of the volume along x, y, z.

    Attributes:
      group: the processes.
    """

    def __init__(self, group: "Group", regions: Sequence[Region], labels: np.ndarray, shape: Grid) -> None:
        self.group, self._regions, self._labels, self._shape = group, regions, labels, shape

    @property
    def own(self) -> np.ndarray:
        """The labels in the region of this process, uint8 `[x, y, z]`."""
        return self._labels

    @property
    def region(self) -> Region:
        """The region of this process."""
        return self._regions[self.group.index]

    @property
    def is_counted(self) -> bool:
        """Whether this process is the first one with its region, which is not empty."""
        return self._regions.index(self.region) == self.group.index and self._labels.size > 0

    def slabs(self, order: PlaneOrder) -> Iterator[np.ndarray]:
        """Yields the labels of each slab of the volume; in all processes except process 0, empty arrays.

        Args:
          order: the order of the slabs.
        """
        for slab in self.parts(order):
            yield self._move(slab)

    def parts(self, order: PlaneOrder) -> Iterator[Region]:
        """Yields the region of each slab of `slabs`."""
        plane = math.prod(self._shape) // self._shape[order.axis]
        return order.parts(whole_region(self._shape), max(1, _SLAB_VOXELS // plane))

    def compact(self, order: PlaneOrder) -> CompactLabels:
        """Returns all labels in process 0, while the other processes call `send`."""
        labels = CompactLabels(self._shape)
        for slab in self.parts(order):
            labels[slab] = self._move(slab)
        return labels

    def whole(self) -> np.ndarray:
        """Returns all labels in one array, uint8 `[x, y, z]`, if there is only one process."""
        assert len(self._regions) == 1
        return self._labels

    def _move(self, region: Region) -> np.ndarray:
        """Returns the labels of a region in process 0."""
        want = [region, *[_NOTHING] * (len(self._regions) - 1)]
        return self.group.move(self._labels, self._regions, want, order="F")

    def send(self, order: PlaneOrder) -> None:
        """Sends the labels of this process to process 0, which calls `slabs` with the same order."""
        for _ in self.slabs(order):
            pass


def sliced_labels(
    slices: Slices,
    probabilities: np.ndarray,
    geometry: Geometry,
    sampling: AnySampling,
    path: Path,
    description: Description = LITS,
    factors: np.ndarray | None = None,
) -> SlicedLabels:
    """Converts the probabilities of all processes to labels of a volume.

    Processes exchange the probabilities at the borders of their slices, slab by slab.

    Args:
      slices: the slices of the processes.
      probabilities: `[x, y, z, classes]` of this process, or `[x, y, z, masks]` if the description has regions, on the
          grid of `sampling`, of any float type.
      geometry: the geometry of the volume.
      sampling: the voxel grid of the network, or its grids.
      path: path of the volume, for messages.
      description: the labels or regions that the network predicts.
      factors: factors of the probabilities before labels are chosen, `[classes]`; None for none.

    Raises:
      ShapeError: the probabilities have the wrong shape.
      DataError: the probabilities of a process contain NaN or infinity. Every process raises this error.
    """
    probabilities = np.asarray(probabilities)
    sampling, classes = sampling.choose(geometry.shape, geometry.spacing), description.num_outputs
    shape, expected = _whole_shape(slices, probabilities), (*sampling.grid, classes)
    if shape != expected:
        raise ShapeError(
            f"{path}: the network returned probabilities of shape {shape}; {sampling} needs {expected}. "
            f"{_fix(description)}"
        )
    check_finite(slices, probabilities, path, "use a checkpoint from before the training diverged.")
    part, back = way_back(sampling.spans(geometry.shape, geometry.spacing), geometry.shape)
    grid = region_shape(part)
    own = slices.group.index
    regions = []
    for output in slices.outputs:
        covered = tuple(overlap(at, inside) for at, inside in zip(output[:3], part, strict=True))
        regions.append(region_of_slice(grid, back, moved(covered, part)))
    labels = np.empty(region_shape(regions[own]), np.uint8, order="F")  # the order of NIfTI files
    for slabs in _rounds(regions, grid, back, classes):
        needed = [needed_region(grid, back, slab) for slab in slabs]
        want = [(*absolute(region, part), slice(0, classes)) for region in needed]
        there = slices.group.move(probabilities, slices.outputs, want)
        there = there if factors is None else there * factors
        slab = slabs[own]
        labels[moved(slab, regions[own])] = labels_of_region(there, grid, back, slab, description)
    return SlicedLabels(slices.group, regions, labels, geometry.shape)


def grid_labels(slices: Slices, probabilities: np.ndarray, path: Path, description: Description = LITS) -> SlicedLabels:
    """Converts the probabilities of all processes to labels on the grid of the network.

    Args:
      slices, probabilities, description: the same as in `sliced_labels`.
      path: path of the image, for messages.

    Raises:
      ShapeError, DataError: see `sliced_labels`.
    """
    probabilities, classes = np.asarray(probabilities), description.num_outputs
    grid = tuple(max(region[axis].stop for region in slices.inputs) for axis in range(3))
    shape = _whole_shape(slices, probabilities)
    if shape != (*grid, classes):
        raise ShapeError(
            f"{path}: the network returned an array of shape {shape}; the grid {format_grid(grid)} needs "
            f"probabilities of shape {(*grid, classes)}. {_fix(description)}"
        )
    check_finite(slices, probabilities, path, "lower the learning rate.")
    regions = [output[:3] for output in slices.outputs]
    want = [(*region, slice(0, classes)) for region in regions]
    if want != [*slices.outputs]:  # processes have different classes of the same voxels
        probabilities = slices.group.move(probabilities, slices.outputs, want)
    labels = np.empty(probabilities.shape[:3], np.uint8)
    for x, plane in enumerate(probabilities):  # NumPy's argmax needs 8 bytes per voxel
        labels[x] = description.to_labels(np.asarray(plane, np.float32))
    return SlicedLabels(slices.group, regions, labels, grid)


def _rounds(regions: Sequence[Region], grid: tuple[int, ...], back: Spans, classes: int) -> Iterator[list[Region]]:
    """Yields one slab of each process's region at a time, until all are computed; some slabs may be empty."""
    slabs = [label_slabs(grid, back, region, classes) for region in regions]
    for each in itertools.zip_longest(*slabs, fillvalue=_NOTHING):
        yield list(each)


def _whole_shape(slices: Slices, probabilities: np.ndarray) -> tuple[int, ...]:
    """Returns the shape of the probabilities of all processes together."""
    return probabilities.shape if len(slices.outputs) == 1 else whole_shape(slices.outputs)


def _fix(description: Description) -> str:
    return f"Fix: return one probability per {'mask' if description.has_regions else 'class'} for every voxel."


def check_finite(slices: Slices, probabilities: np.ndarray, path: Path, fix: str) -> None:
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
