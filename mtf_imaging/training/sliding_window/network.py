"""A network that slides over an image, under any layout."""

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from mtf_imaging.errors import ConfigError, ShapeError
from mtf_imaging.layout.regions import Region, intersection, region_shape, relative_to, whole_region
from mtf_imaging.training.evaluation import Prediction
from mtf_imaging.training.slices import ImageSlices
from mtf_imaging.training.sliding_window.windows import SlidingWindow, Windows


class SlidingNetwork:
    """A network whose window slides over images of any size; see `training.slices.ImageNetwork`.

    The prediction is the weighted sum of the predictions of all windows, whose weights sum to 1 at each voxel. It has
    the dtype of the network's results, but at least float32. If there are several processes, each of them passes and
    receives a slab of the image along its first axis. The processes exchange their results, and add the windows in the
    same order as one process.

    Args:
      batch: the slices of a batch of windows: regions `[batch, x, y, z, channels]` and `[batch, x, y, z, classes]`.
      window: the window.

    Raises:
      ConfigError: the network has several outputs.
      ShapeError: the network does not predict an array of the window's size.
    """

    def __init__(self, batch: ImageSlices, window: SlidingWindow) -> None:
        parts: Any = batch.outputs
        if isinstance(parts, dict):
            raise ConfigError(
                f"sliding_window: predictions of several parts ({', '.join(parts)}) cannot be averaged over "
                "windows. Fix: use sliding_window none.",
                ["sliding_window"],
            )
        (size, *spatial, _), shape = _whole_shape(batch.inputs), _whole_shape(batch.outputs)
        if shape[:-1] != (size, *spatial) or tuple(spatial) != window.size:
            raise ShapeError(
                f"the network returned an array of shape {list(shape[1:])} for a window of {[*window.size]} voxels. "
                "Fix: return one probability per class for every voxel, or use sliding_window none.",
                ["sliding_window"],
            )
        self._batch, self._window = batch, window

    def __call__(self, image: np.ndarray) -> Prediction:
        slices = self.slices(image.shape[:-1])
        own = slices.predict(image[slices.inputs[slices.group.index]])
        whole = whole_region(_whole_shape(slices.outputs))
        return own if len(slices.outputs) == 1 else slices.group.move(own, slices.outputs, [whole] * slices.group.num)

    def slices(self, sizes: Sequence[int]) -> ImageSlices:
        return _SlidingSlices(self._batch, tuple(sizes), self._window)


class _SlidingSlices:
    """The slabs of an image that the processes pass and receive; see `training.slices.ImageSlices`."""

    def __init__(self, batch: ImageSlices, sizes: tuple[int, ...], window: SlidingWindow) -> None:
        self._batch, self._windows = batch, Windows(sizes, window)
        self._batch_size, *_, channels = _whole_shape(batch.inputs)
        classes = _whole_shape(batch.outputs)[-1]
        self.group = batch.group
        first, *others = sizes
        bounds = [number * first // self.group.num for number in range(self.group.num + 1)]
        slabs = [(slice(*pair), *whole_region(others)) for pair in itertools.pairwise(bounds)]
        self.inputs: Sequence[Region] = [(*slab, slice(0, channels)) for slab in slabs]
        self.outputs: Sequence[Region] = [(*slab, slice(0, classes)) for slab in slabs]

    def predict(self, image: np.ndarray) -> np.ndarray:
        total = None
        for first in range(0, len(self._windows), self._batch_size):
            chosen = range(first, min(first + self._batch_size, len(self._windows)))
            results = self._batch.predict(self._cut(image, chosen))
            if total is None:
                dtype = np.promote_types(results.dtype, np.float32)
                total = np.zeros(region_shape(self.outputs[self.group.index]), dtype)
            for slot, number in enumerate(chosen):
                self._add(total, results, slot, number)
        assert total is not None, "an image has at least one window"
        return total

    def _cut(self, image: np.ndarray, chosen: range) -> np.ndarray:
        """Returns this process's result for a batch of windows; the last window is repeated to fill the batch."""
        own = self._batch.inputs[self.group.index]
        images = np.empty(region_shape(own), image.dtype)
        for slot in range(self._batch_size):
            window = self._windows.region(chosen[min(slot, len(chosen) - 1)])
            part = self.group.move(image, self.inputs, _in_image(self._batch.inputs, slot, window))
            if own[0].start <= slot < own[0].stop:
                images[slot - own[0].start] = part
        return images

    def _add(self, total: np.ndarray, results: np.ndarray, slot: int, number: int) -> None:
        """Adds the prediction of a window to the slabs of the processes that it overlaps."""
        window, own = self._windows.region(number), self._batch.outputs[self.group.index]
        have = _in_image(self._batch.outputs, slot, window)
        is_own = own[0].start <= slot < own[0].stop
        part = results[slot - own[0].start] if is_own else np.empty(region_shape(have[self.group.index]), results.dtype)
        nothing = (slice(0, 0),) * len(own[1:])
        covered = [intersection(slab, (*window, slab[-1])) or nothing for slab in self.outputs]
        weighted = self.group.move(part, have, covered).astype(total.dtype, copy=False)
        region = covered[self.group.index]
        if not weighted.size:
            return
        places = zip(self._windows.weights(number), relative_to(region[:-1], window), strict=True)
        weights = functools.reduce(np.multiply.outer, [own[at] for own, at in places])
        weighted *= weights.astype(total.dtype)[..., np.newaxis]
        total[relative_to(region, self.outputs[self.group.index])] += weighted


def _in_image(parts: Sequence[Region], slot: int, window: Region) -> list[Region]:
    """Returns, for each process, the region of the image that it computes in one window of a batch; may be empty.

    Args:
      parts: each process's region of the batch.
      slot: the index of the window within the batch.
      window: the region of the image that the window covers.
    """
    regions = []
    for numbers, *spatial, last in parts:
        if numbers.start <= slot < numbers.stop:
            pairs = zip(spatial, window, strict=True)
            regions.append((*(slice(a.start + b.start, a.stop + b.start) for a, b in pairs), last))
        else:
            regions.append((slice(0, 0),) * (len(window) + 1))
    return regions


def _whole_shape(regions: Sequence[Region]) -> tuple[int, ...]:
    """Returns the shape of the array that the regions of all processes cover."""
    return tuple(max(region[axis].stop for region in regions) for axis in range(len(regions[0])))
