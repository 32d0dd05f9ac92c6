"""A network that slides over an image, under any layout."""

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mtf_imaging.engine.layout.regions import Region, absolute, intersection, region_shape, relative_to, whole_region
from mtf_imaging.errors import ShapeError
from mtf_imaging.files.blocks import Voxels, copy_rows, is_small, working_array
from mtf_imaging.inference.network import (
    Consume,
    Network,
    Slices,
    of_each,
    of_image,
    one_batch,
    own_image,
    whole_shape,
)  # fmt: skip
from mtf_imaging.inference.progress import passed
from mtf_imaging.inference.windows import SlidingWindow, Windows

Regions = Sequence[Region]  # the region of each process


def sliding(network: Network, window: SlidingWindow, progress: bool = False) -> Network:
    """Returns a network whose window slides over images of any size.

    Of several inputs, those with the sizes of a window slide; every window gets the whole of the others.

    The prediction is the weighted sum of the predictions of all windows, whose weights sum to 1 at each voxel. It has
    the dtype of the network's results, but at least float32. If there are several processes, each of them passes and
    receives a slab of the image along its first axis. The processes exchange their results, and add the windows in the
    same order as one process.

    Args:
      network: the network of a window.
      window: the window.
      progress: whether to show progress on stderr, if an image takes long.

    Raises:
      ShapeError: the network does not predict arrays of the window's size.
    """
    windows = network.slices(window.size)

    def check(regions: Regions) -> None:
        if not _slides(regions, window.size):
            raise ShapeError(
                f"the network returned an array of shape {[*whole_shape(regions)]} for a window of {[*window.size]} "
                "voxels. Fix: return one probability per class for every voxel, or use sliding_window none.",
                ["sliding_window"],
            )

    of_each(check, windows.outputs)
    return Network(lambda sizes: _Slide(windows, sizes, window, progress).slices())


def _slides(regions: Regions, size: tuple[int, ...]) -> bool:
    """Returns whether an input or output has the size of a window."""
    return whole_shape(regions)[:-1] == size


class _Slide:
    """The windows of an image, and the slabs of it that the processes pass and receive.

    Args:
      batch: the slices of a batch of windows.
      sizes: voxels of the image along each spatial dimension.
      window: the window.
      progress: whether to show progress.
    """

    def __init__(self, batch: Slices, sizes: tuple[int, ...], window: SlidingWindow, progress: bool) -> None:
        self._progress = progress
        self._batch, self._windows, self._group = batch, Windows(sizes, window), batch.group
        first, *others = sizes
        bounds = [number * first // self._group.num for number in range(self._group.num + 1)]
        slabs = [(slice(*pair), *whole_region(others)) for pair in itertools.pairwise(bounds)]

        def of_processes(regions: Regions) -> Regions:
            shape, slides = whole_shape(regions), _slides(regions, window.size)
            return [(*slab, slice(0, shape[-1])) if slides else whole_region(shape) for slab in slabs]

        self._inputs, self._outputs = of_each(of_processes, batch.inputs), of_each(of_processes, batch.outputs)

    def slices(self) -> Slices:
        """Returns the slices of the image; a batch has a single image."""
        return Slices(
            self._group,
            self._inputs,
            self._outputs,
            lambda images: one_batch(self._predict(of_each(lambda array: array[0], images))),
            [slice(0, 1)] * self._group.num,
            self._feed if self._group.num == 1 and not isinstance(self._outputs, Mapping) else None,
        )

    def _predict(self, image: Any) -> Any:
        """Returns the prediction in the slab of this process."""
        return of_each(lambda total: total.values, self._sum(image, None))

    def _feed(self, image: Voxels, consume: Consume, first: int) -> None:
        """Predicts the image, and passes on each row when no later window contains it; see `Slices.predict_parts`."""
        total = self._sum(image, consume, first)
        total.pass_on(total.stop, consume)

    def _sum(self, image: Any, consume: Consume | None, first: int = 0) -> Any:
        """Returns the `_Sum` of the windows with rows from `first` on, or one for each of several outputs."""
        total: Any = None
        size, mine, rows = self._batch.batch_size, self._group.index, None if consume is None else self._windows.size[0]
        begin = next(n for n in range(len(self._windows)) if self._windows.region(n)[0].stop > first) // size * size
        starts = range(begin, len(self._windows), size)
        for start in passed(starts, "windows", "window", self._progress):
            chosen = range(start, min(start + size, len(self._windows)))
            cut = functools.partial(self._cut, chosen)
            results = self._batch.predict(of_each(cut, image, self._batch.inputs, self._inputs))
            if total is None:
                total = of_each(lambda array, slabs: _Sum(slabs[mine], array.dtype, rows), results, self._outputs)
            for slot, number in enumerate(chosen):
                if consume is not None:
                    total.pass_on(self._windows.region(number)[0].start, consume)
                add = functools.partial(self._add, slot, number)
                of_each(add, total, results, self._batch.outputs, self._outputs)
        assert total is not None, "an image has at least one window"
        return total

    def _cut(self, chosen: range, image: Voxels, regions: Regions, slabs: Regions) -> np.ndarray:
        """Returns this process's part of a batch of windows; the last window is repeated to fill the batch."""
        mine, own = self._batch.batch[self._group.index], regions[self._group.index]
        images = np.empty((mine.stop - mine.start, *region_shape(own)), image.dtype)
        for slot in range(self._batch.batch_size):
            window = self._windows.region(chosen[min(slot, len(chosen) - 1)])
            part = self._group.move(image, slabs, self._in_image(regions, slot, window))
            if mine.start <= slot < mine.stop:
                images[slot - mine.start] = part
        return images

    def _add(
        self, slot: int, number: int, total: "_Sum", results: np.ndarray, regions: Regions, slabs: Regions
    ) -> None:
        """Adds the prediction of a window to the slabs of the processes that it overlaps."""
        window = self._windows.region(number)
        have = self._in_image(regions, slot, window)
        part = own_image(results, self._batch.batch[self._group.index], slot)
        nothing = (slice(0, 0),) * part.ndim
        covered = [intersection(slab, (*window, slab[-1])) or nothing for slab in slabs]
        weighted = self._group.move(part, have, covered).astype(total.values.dtype, copy=False)
        region = covered[self._group.index]
        if not weighted.size:
            return
        places = zip(self._windows.weights(number), relative_to(region[:-1], window), strict=True)
        weights = functools.reduce(np.multiply.outer, [own[at] for own, at in places])
        weighted = weighted * weights.astype(total.values.dtype)[..., np.newaxis]
        total.add(region, weighted)

    def _in_image(self, regions: Regions, slot: int, window: Region) -> list[Region]:
        """Returns, for each process, the region of the image that it computes in one window of a batch; may be empty.

        An input that does not slide is the same for every window.

        Args:
          regions: each process's region of the window.
          slot: the index of the window in the batch.
          window: the region of the image that the window covers.
        """
        origin = (*window, slice(0, 0)) if _slides(regions, self._windows.size) else ((slice(0, 0),) * len(regions[0]))
        return [absolute(region, origin) for region in of_image(self._batch.batch, regions, slot)]


class _Sum:
    """The sum of the windows so far, in the rows that later windows may still change.

    Args:
      region: the slab of this process.
      dtype: the dtype of the predictions; that of the sum is at least float32.
      rows: the largest number of rows that one window changes; None to keep all rows of the slab.

    Attributes:
      values: the rows.
      stop: the end of the slab along the first axis.
    """

    def __init__(self, region: Region, dtype: np.dtype, rows: int | None) -> None:
        at, *others = region
        dtype = np.promote_types(dtype, np.float32)
        self.stop, self._first, self._start, self._others = at.stop, at.start, at.start, tuple(others)
        if is_small(region_shape(region), dtype):
            rows = None
        self._keeps_all = rows is None
        self.values = working_array((rows or at.stop - at.start, *region_shape(self._others)), dtype)

    def add(self, region: Region, values: np.ndarray) -> None:
        """Adds values to a region of the image."""
        at = relative_to(region, (slice(self._first if self._keeps_all else self._start, self.stop), *self._others))
        self.values[at] += values

    def pass_on(self, start: int, consume: Consume) -> None:
        """Passes on the rows before `start`, which no later window changes."""
        count, done = start - self._start, self.values
        if not count:
            return
        rows = slice(self._start - self._first, start - self._first)
        self._start = start
        consume(rows, done[rows] if self._keeps_all else done)
        if start < self.stop and not self._keeps_all:
            self.values = working_array(done.shape, done.dtype)
            copy_rows(self.values, slice(0, len(done) - count), done, count)
