"""Labels of a volume; each process computes a region from its slice of the probabilities."""

import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.images.compact_labels import CompactLabels
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.sampling.buckets import AnySampling
from mtf_imaging.data.sampling.grid import Grid, Region, whole_region
from mtf_imaging.data.sampling.interpolation import needed_ends, needed_region
from mtf_imaging.data.sampling.label_region import label_slabs, labels_of_region, region_of_slice
from mtf_imaging.data.sampling.regions import PlaneOrder, moved, overlap, region_shape
from mtf_imaging.data.sampling.sampling import Spans, way_back
from mtf_imaging.engine.layout.regions import absolute
from mtf_imaging.errors import DataError, ShapeError
from mtf_imaging.files.blocks import Voxels
from mtf_imaging.files.unfinished import Unfinished
from mtf_imaging.inference.network import Slices, whole_shape

if TYPE_CHECKING:
    from mtf_imaging.engine.meshes.group import Group

_SLAB_VOXELS = 16 << 20  # labels that process 0 receives at once
NOTHING = (slice(0, 0),) * 3


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

    def __init__(self, group: "Group", regions: Sequence[Region], labels: CompactLabels, shape: Grid) -> None:
        self.group, self._regions, self._labels, self._shape = group, regions, labels, shape

    @property
    def own(self) -> np.ndarray:
        """The labels in the region of this process, uint8 `[x, y, z]`."""
        return self._labels[whole_region(self._labels.shape)]

    @property
    def region(self) -> Region:
        """The region of this process."""
        return self._regions[self.group.index]

    @property
    def is_counted(self) -> bool:
        """Whether this process is the first one with its region, which is not empty."""
        return self._regions.index(self.region) == self.group.index and math.prod(self._labels.shape) > 0

    def slabs(self, order: PlaneOrder) -> Iterator[np.ndarray]:
        """Yields the labels of each slab of the volume; in all processes except process 0, empty arrays.

        Args:
          order: the order of the slabs.
        """
        for slab in self.parts(order):
            yield self._move(slab)

    def parts(self, order: PlaneOrder) -> Iterator[Region]:
        """Yields the region of each slab of `slabs`."""
        return order.slabs(self._shape, _SLAB_VOXELS)

    def compact(self, order: PlaneOrder) -> CompactLabels:
        """Returns all labels in process 0, while the other processes call `send`."""
        if len(self._regions) == 1:
            return self._labels
        labels = CompactLabels(self._shape)
        for slab in self.parts(order):
            labels[slab] = self._move(slab)
        return labels

    def _move(self, region: Region) -> np.ndarray:
        """Returns the labels of a region in process 0."""
        want = [region, *[NOTHING] * (len(self._regions) - 1)]
        return self.group.move(self._labels, self._regions, want, order="F")

    def send(self, order: PlaneOrder) -> None:
        """Sends the labels of this process to process 0, which calls `slabs` with the same order."""
        for _ in self.slabs(order):
            pass


class Labeling:
    """Converts the probabilities of all processes to labels of a volume.

    A process that is alone gets its probabilities in parts, and keeps only the rows that the next labels need. Several
    processes exchange the probabilities at the borders of their slices, slab by slab.

    Args:
      slices: the slices of the processes. Their probabilities are `[x, y, z, classes]`, or `[x, y, z, masks]` if the
        description has regions, on the grid of `sampling`, of any float type.
      geometry: the geometry of the volume.
      sampling: the voxel grid of the network, or its grids.
      path: path of the volume, for messages.
      description: the labels or regions that the network predicts.
      crop: the region of the volume that was resampled; None for the whole volume.
      factors: factors of the probabilities before labels are chosen, `[classes]`; None for none.
      begun: the labels of the first rows, if an earlier process was killed; None to forget them.

    Attributes:
      first: the first row of the grid that the labels need.
    """

    def __init__(
        self,
        slices: Slices,
        geometry: Geometry,
        sampling: AnySampling,
        path: Path,
        description: Description = LITS,
        crop: Region | None = None,
        factors: np.ndarray | None = None,
        begun: Unfinished | None = None,
    ) -> None:
        self._slices, self._path, self._description, self._factors = slices, path, description, factors
        place = region_shape(crop or whole_region(geometry.shape)), geometry.spacing
        self._sampling = sampling.choose(*place)
        self._box, self._back = way_back(self._sampling.spans(*place), geometry.shape, crop)
        self._grid, self._shape = region_shape(self._box), geometry.shape
        self._expected = (*self._sampling.grid, description.num_outputs)
        self._regions = [volume_region(output[:3], self._box, self._back) for output in slices.outputs]
        self._labels = CompactLabels(region_shape(self._regions[slices.group.index]))
        self._done, self._begun = 0, begun if len(slices.outputs) == 1 else None
        for part in () if self._begun is None else self._begun.parts():
            self._labels[self._done : self._done + len(part),] = part
            self._done += len(part)
        self.first = min(self._first_needed(), self._expected[0] - 1) if self._done else 0
        self._rows = _Rows(self.first)

    def add(self, rows: slice, probabilities: Voxels) -> None:
        """Adds the probabilities of some rows along x; see `Slices.predict_parts`.

        Raises:
          ShapeError: the probabilities have the wrong shape.
          DataError: the probabilities of a process contain NaN or infinity. Every process raises this error.
        """
        slices, own = self._slices, self._slices.group.index
        alone = len(slices.outputs) == 1
        shape = (rows.stop, *probabilities.shape[1:]) if alone else whole_shape(slices.outputs)
        if shape[1:] != self._expected[1:] or shape[0] > self._expected[0]:
            raise self._wrong_shape(shape)
        self._check_finite(probabilities, rows.stop - rows.start)
        if alone and rows.stop <= self._rows.start:  # several processes move together, even one with an empty slice
            return
        self._rows.add(rows, probabilities)
        have, regions = slices.outputs, self._regions
        if alone:
            have = [(slice(self._rows.start, rows.stop), *have[0][1:])]
            regions = [(slice(self._done, self._last_row(rows.stop)), *regions[0][1:])]
        classes = self._expected[-1]
        for slabs in _rounds(regions, self._grid, self._back, classes):
            needed = [needed_region(self._grid, self._back, slab) for slab in slabs]
            want = [(*absolute(region, self._box), slice(0, classes)) for region in needed]
            there = slices.group.move(self._rows, have, want)
            slab = slabs[own]
            labels = labels_of_region(there, self._grid, self._back, slab, self._description, self._factors)
            self._labels[moved(slab, self._regions[own])] = labels
        if self._begun is not None:
            self._begun.add(self._labels[moved(regions[own], self._regions[own])])
        self._done = regions[own][0].stop
        if alone:
            self._rows.keep(self._first_needed())

    def of_all(self, probabilities: np.ndarray) -> SlicedLabels:
        """Returns the labels, if all probabilities come at once."""
        self.add(slice(0, len(probabilities)), probabilities)
        return self.finish()

    def finish(self) -> SlicedLabels:
        """Returns the labels.

        Raises:
          ShapeError: there were too few rows.
        """
        if len(self._slices.outputs) == 1 and self._rows.stop != self._expected[0]:
            raise self._wrong_shape((self._rows.stop, *self._expected[1:]))
        return SlicedLabels(self._slices.group, self._regions, self._labels, self._shape)

    def _last_row(self, stop: int) -> int:
        """Returns the number of rows of the volume that need only the first `stop` rows of the grid."""
        there = min(max(stop - self._box[0].start, 0), self._grid[0])
        if there == self._grid[0]:
            return self._shape[0]
        return int(np.searchsorted(needed_ends(self._grid[0], self._back[0])[1], there, "right"))

    def _first_needed(self) -> int:
        """Returns the first row of the grid that the next labels need."""
        if self._done == self._shape[0]:
            return self._expected[0]
        return self._box[0].start + int(needed_ends(self._grid[0], self._back[0])[0][self._done])

    def _wrong_shape(self, shape: tuple[int, ...]) -> ShapeError:
        return ShapeError(
            f"{self._path}: the network returned probabilities of shape {shape}; {self._sampling} needs "
            f"{self._expected}. Fix: return one probability per "
            f"{'mask' if self._description.has_regions else 'class'} for every voxel."
        )

    def _check_finite(self, probabilities: Voxels, count: int) -> None:
        """Raises DataError in every process if the first rows of one process contain NaN or infinity."""
        # One plane at a time, because a mask of the whole array would be as large as the volume.
        is_finite = all(np.isfinite(probabilities[x : x + 1,]).all() for x in range(count))
        if not self._slices.group.gather_numbers([is_finite]).all():
            raise DataError(
                f"{self._path}: the network returned NaN or infinity. Fix: lower the learning rate, or use a "
                "checkpoint from before the training diverged."
            )


def volume_region(output: Region, box: Region, back: Spans) -> Region:
    """Returns the region of a volume whose values belong to a region of the grid; see `way_back`."""
    covered = tuple(overlap(at, inside) for at, inside in zip(output, box, strict=True))
    return region_of_slice(region_shape(box), back, moved(covered, box))


class _Rows:
    """Consecutive rows of an array along its first axis, which come in parts."""

    def __init__(self, start: int) -> None:
        self._parts: list[tuple[slice, Voxels]] = []
        self.start = self.stop = start

    @property
    def dtype(self) -> np.dtype:
        return self._parts[0][1].dtype

    def add(self, rows: slice, values: Voxels) -> None:
        """Adds the next rows."""
        self._parts.append((rows, values))
        self.stop = rows.stop

    def keep(self, start: int) -> None:
        """Forgets the rows before `start`, and copies the others."""
        start = min(max(start, self.start), self.stop)
        rest = slice(start, self.stop)
        self._parts = [(rest, np.array(self[slice(start - self.start, self.stop - self.start),]))]
        self.start = start

    def __getitem__(self, region: Region) -> np.ndarray:
        """Returns a region, relative to the first row."""
        first = slice(region[0].start + self.start, region[0].stop + self.start)
        found = []
        for rows, values in self._parts:
            part = overlap(rows, first)
            if part.start < part.stop:
                found.append(values[(slice(part.start - rows.start, part.stop - rows.start), *region[1:])])
        if not found:
            return self._parts[0][1][(slice(0, 0), *region[1:])]
        return found[0] if len(found) == 1 else np.concatenate(found)


def _rounds(regions: Sequence[Region], grid: tuple[int, ...], back: Spans, classes: int) -> Iterator[list[Region]]:
    """Yields one slab of each process's region at a time, until all are computed; some slabs may be empty."""
    slabs = [label_slabs(grid, back, region, classes) for region in regions]
    for each in itertools.zip_longest(*slabs, fillvalue=NOTHING):
        yield list(each)
