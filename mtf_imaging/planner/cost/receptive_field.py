"""The receptive field of a network: the part of the image on which one voxel of its output depends.

The field is exact: the interval of image voxels that a voxel depends on is followed from operation to operation. It is
wider than the formula for a chain of convolutions suggests: after a pool and a transposed convolution, the window of a
voxel is not centered on it. Statistics of a whole image, for instance in a batch norm, depend on every voxel. As in the
literature, they do not count; `ReceptiveField.statistics` states whether there are any.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.ops.conv.operations import Conv, ConvInputGrad
from mtf_imaging.engine.ops.pool.operations import AvgPool, MaxPool
from mtf_imaging.engine.ops.window_op import WindowOperation
from mtf_imaging.engine.program.tracing import trace_only
from mtf_imaging.training.task import Task, task_inputs

# A field below this share of the input is reported: each level roughly doubles it, so at least one is missing.
NARROW = 0.5
_BIG = 1024  # voxels along each axis of the analyzed image, more than any receptive field of interest

# The first and last image voxel that each tensor voxel depends on, int64 [2, size], by dimension name.
_Intervals = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class ReceptiveField:
    """The receptive field of a network, the image, and the patch if the network computes patches.

    Attributes:
      voxels: {dimension: the widest interval of voxels that one voxel depends on}.
      image: {dimension: voxels of the image}.
      spacing: voxel size in mm along each dimension; None if unknown.
      patch: {dimension: voxels of the patch}; None if the network computes the whole image.
      statistics: whether the network computes statistics of its whole input, as an instance norm does.
    """

    voxels: Mapping[str, int]
    image: Mapping[str, int]
    spacing: tuple[float, ...] | None = None
    patch: Mapping[str, int] | None = None
    statistics: bool = False

    @property
    def input(self) -> Mapping[str, int]:
        """The voxels of the network's input: the patch if there is one, else the image."""
        return self.image if self.patch is None else self.patch

    @property
    def seen(self) -> dict[str, int]:
        """The voxels that one output voxel can depend on: the field, limited to the input."""
        return {name: min(self.voxels[name], size) for name, size in self.input.items()}

    @property
    def covers_image(self) -> bool:
        """Whether an output voxel can depend on the whole image along every dimension."""
        return all(self.seen[name] >= size for name, size in self.image.items())

    @property
    def narrow(self) -> list[str]:
        """The dimensions along which the field has less than half of the input's voxels."""
        return [name for name, size in self.input.items() if self.voxels[name] < NARROW * size]

    @property
    def cut(self) -> list[str]:
        """The dimensions along which the patch has less than half of the image's voxels."""
        return [name for name, size in self.image.items() if self.input[name] < NARROW * size]

    def __str__(self) -> str:
        """Returns the field and the input, for example "100 x 100 x 100 of 256 x 256 x 256 voxels"."""
        return self.compare(self.voxels, self.input)

    def compare(self, part: Mapping[str, int], whole: Mapping[str, int]) -> str:
        """Formats sizes in voxels and, if the spacing is known, in mm, for example "32 x 32 of 64 x 64 voxels"."""
        some, every = (" x ".join(str(sizes[name]) for name in self.image) for sizes in (part, whole))
        text = f"{some} of {every} voxels"
        if self.spacing is None:
            return text
        mm, of = (
            " x ".join(f"{sizes[name] * mm:.0f}" for name, mm in zip(self.image, self.spacing))
            for sizes in (part, whole)
        )
        return f"{text}, {mm} of {of} mm"

    def lengths(self, sizes: Mapping[str, int], names: Sequence[str]) -> str:
        """Formats sizes along some dimensions, in mm if the spacing is known, such as "96 mm along x and y"."""
        mm = dict(zip(self.image, self.spacing or (1.0,) * len(self.image), strict=True))
        unit = "voxels" if self.spacing is None else "mm"
        return along({name: f"{sizes[name] * mm[name]:.0f} {unit}" for name in names})


def along(sizes: Mapping[str, str]) -> str:
    """Joins texts about dimensions without repeating equal ones.

    >>> along({"x": "96 mm", "y": "96 mm", "z": "64 mm"})
    '96 mm along x and y, 64 mm along z'
    """
    grouped: dict[str, list[str]] = {}
    for name, text in sizes.items():
        grouped.setdefault(text, []).append(name)
    return ", ".join(
        f"{text} along {' and '.join(', '.join(names).rsplit(', ', 1))}" for text, names in grouped.items()
    )


def receptive_field(
    task: Task, dims: Sequence[tuple[str, int]], spacing: tuple[float, ...] | None = None
) -> ReceptiveField | None:
    """Returns the receptive field of a task's predictions.

    Args:
      task: the task; its method `predict` takes `image`.
      dims: pairs (name, voxels) of the spatial dimensions of the image.
      spacing: voxel size in mm; None if unknown.

    Returns:
      The field; None if the prediction is not a map with the dimensions of the image, or if an operation of the network
      resizes or moves voxels in a way that is not followed, such as an interpolation.
    """
    image = dict(dims)
    big = [size if size == 1 else max(size, _BIG) for size in image.values()]
    traced = trace_only(task.predict, task_inputs(task, 1, big, labels=False))
    known: dict[mtf.Tensor, _Intervals | None] = {}
    statistics = False
    for operation in traced.needed:
        given = [known.get(x) for x in operation.inputs]
        for y in operation.outputs:
            if not operation.inputs and "batch" in y.shape.dimension_names:  # the image
                known[y] = {d.name: np.tile(np.arange(d.size), (2, 1)) for d in y.shape.dims if d.name in image}
            else:
                known[y] = _behind(operation, y, given)
                statistics = statistics or (any(given) and not known[y])
    output = traced.outputs
    found = known.get(output) if isinstance(output, mtf.Tensor) else None
    if found is None or not {name for name, size in image.items() if size > 1} <= set(found):
        return None
    voxels = {name: int((last - first).max()) + 1 for name, (first, last) in found.items()}
    return ReceptiveField({name: voxels.get(name, 1) for name in image}, image, spacing, statistics=statistics)


def _behind(operation: mtf.Operation, y: mtf.Tensor, given: Sequence[_Intervals | None]) -> _Intervals | None:
    """Returns the intervals of an operation's output; None if unknown.

    Args:
      operation: the operation.
      y: its output.
      given: the intervals of its inputs; empty for weights and for statistics of the whole image.
    """
    if any(intervals is None for intervals in given):
        return None
    if isinstance(operation, WindowOperation):
        return _of_windows(operation, given)
    result: _Intervals = {}
    sizes = {dim.name: dim.size for dim in y.shape.dims}
    for intervals in given:
        for name, interval in (intervals or {}).items():
            if name not in sizes:  # a sum or a mean over the dimension
                continue
            if sizes[name] != interval.shape[1]:
                return None
            result[name] = _union(result.get(name, interval), interval)
    return result


def _of_windows(operation: WindowOperation, given: Sequence[_Intervals | None]) -> _Intervals | None:
    intervals = dict(given[0] or {})
    if not isinstance(operation, Conv | ConvInputGrad | MaxPool | AvgPool):
        return None
    geometry = operation.geometry
    for name, size, window in zip(geometry.names, geometry.sizes, geometry.windows):
        if name not in intervals:  # weights, or a statistic of the whole image
            continue
        count = window.output_size(size)
        # taps[i, k]: the voxel under tap k of window i
        starts = np.arange(count) * window.stride - window.pads(size)[0]
        taps = starts[:, np.newaxis] + np.arange(window.kernel) * window.dilation
        inside = (taps >= 0) & (taps < size)
        windows, voxels = np.nonzero(inside)[0], taps[inside]
        transposed = isinstance(operation, ConvInputGrad)
        targets, sources, number = (voxels, windows, size) if transposed else (windows, voxels, count)
        first, last = np.full(number, np.iinfo(np.int64).max), np.full(number, -1)
        np.minimum.at(first, targets, intervals[name][0][sources])
        np.maximum.at(last, targets, intervals[name][1][sources])
        intervals[name] = np.stack([np.where(last < 0, 0, first), last])
    return intervals


def _union(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.stack([np.minimum(a[0], b[0]), np.maximum(a[1], b[1])])
