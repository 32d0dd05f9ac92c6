"""TensorFlow operations that resample a volume and repair its values, for exported networks."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from mtf_imaging.data.modality import AIR_HU, MAX_HU, is_ct, value_beyond
from mtf_imaging.data.sampling.buckets import AnySampling
from mtf_imaging.data.sampling.grid import Grid
from mtf_imaging.data.sampling.sampling import EXCESS, SLIVER
from mtf_imaging.engine.meshes.portable import divisor, ensure_shape, is_portable


class SpanTensor(NamedTuple):
    """A `data.sampling.Span` of tensors.

    Attributes:
      start, length: float64 scalars, in voxels of the reference axis.
      size: int64 scalar, the number of voxels.
    """

    start: tf.Tensor
    length: tf.Tensor
    size: tf.Tensor

    @property
    def step(self) -> tf.Tensor:
        return self.length / tf.cast(self.size, tf.float64)

    def inside(self, n: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the start and the end of the voxels that overlap a reference axis of `n` voxels."""
        first = tf.floor(-self.start / self.step + SLIVER)
        last = tf.math.ceil((tf.cast(n, tf.float64) - self.start) / self.step - SLIVER)
        first, last = (tf.clip_by_value(tf.cast(j, tf.int64), 0, self.size) for j in (first, last))
        return first, tf.maximum(first, last)

    def part(self, first: tf.Tensor, end: tf.Tensor) -> "SpanTensor":
        """Returns the span of a voxel range."""
        size = end - first
        is_whole = tf.equal(size, self.size)
        start = self.start + tf.cast(first, tf.float64) * self.step
        length = tf.cast(size, tf.float64) * self.step
        return SpanTensor(tf.where(is_whole, self.start, start), tf.where(is_whole, self.length, length), size)

    def inverse(self, n: tf.Tensor) -> "SpanTensor":
        """Returns the `n` voxels of the reference axis in coordinates of this span."""
        length = tf.cast(n * self.size, tf.float64) / self.length
        return SpanTensor(-self.start / self.step, length, n)


def grid_spans(
    shape: Sequence[tf.Tensor], spacing: tf.Tensor | None, grid: Grid, mm: Sequence[float] | None
) -> list[SpanTensor]:
    """Returns the position of a grid in a volume; see `Sampling.spans`.

    Args:
      shape: voxels of the volume along x, y and z, int64 scalars.
      spacing: voxel size of the volume in mm, float64 `[3]`; None if `mm` is None.
      grid: voxels of the grid.
      mm: voxel size of the grid; None for a grid that covers the whole field of view.
    """
    spans = []
    for axis, (n, size) in enumerate(zip(shape, grid, strict=True)):
        own, g = tf.cast(n, tf.float64), divisor(size, tf.int64)
        if mm is None:
            spans.append(SpanTensor(tf.zeros([], tf.float64), own, g))
            continue
        step = mm[axis] / spacing[axis]
        before = tf.floor((size - own / step + EXCESS * tf.minimum(1 / step, 1)) / 2)
        spans.append(SpanTensor(-before * step, size * step, g))
    return spans


def choose_grid(shape: Sequence[tf.Tensor], spacing: tf.Tensor, sampling: AnySampling) -> tf.Tensor:
    """Returns the index of the grid for a volume, int32; see `Samplings.choose`.

    Args:
      shape: voxels of the volume along x, y and z, int64 scalars.
      spacing: voxel size of the volume in mm, float64 `[3]`.
      sampling: the grids in ascending order.
    """
    own, mm = tf.cast(tf.stack(shape), tf.float64), divisor(sampling.spacing, tf.float64)
    needed = tf.cast(tf.math.ceil(own * spacing / mm - EXCESS * tf.minimum(spacing / mm, 1)), tf.int64)
    covered = tf.reduce_prod(tf.minimum(tf.constant(sampling.grids, tf.int64), needed), axis=1)
    return tf.argmax(covered, output_type=tf.int32)  # of equal grids, the first and therefore smallest one


def resample_linear(data: tf.Tensor, spans: Sequence[SpanTensor], beyond: tf.Tensor) -> tf.Tensor:
    """Resamples a volume linearly; see `data.sampling.slabs.linear_slabs`.

    Args:
      data: float32 `[x, y, z, channels]`.
      spans: the voxels of the result along x, y and z.
      beyond: the values of the voxels beyond the volume, float32 `[channels]`.
    """
    shape = tf.shape(data, tf.int64)[:3]
    if is_portable():  # converters need constant axes
        result = data
        for axis, span in enumerate(spans):
            result = _resample_constant_axis(result, axis, span)
        return tf.where(_overlap(spans, shape)[..., tf.newaxis], result, beyond)
    sizes = tf.stack([span.size for span in spans])
    order = tf.argsort(tf.cast(sizes, tf.float64) / tf.cast(shape, tf.float64), stable=True)
    fields = [tf.stack(values) for values in zip(*spans, strict=True)]
    result = data
    for number in range(3):  # the axis that shrinks the most comes first
        axis = order[number]
        result = _resample_axis(result, axis, SpanTensor(*(field[axis] for field in fields)))
    return tf.where(_overlap(spans, shape)[..., tf.newaxis], result, beyond)


def resample_back(probabilities: tf.Tensor, spans: Sequence[SpanTensor], shape: Sequence[tf.Tensor]) -> tf.Tensor:
    """Resamples probabilities from a grid to its volume, before labels are chosen; see `labels_of_region`.

    Args:
      probabilities: float32 `[x, y, z, classes]` on the grid.
      spans: the voxels of the grid, in coordinates of the volume.
      shape: voxels of the volume along x, y and z, int64 scalars.

    Returns:
      The probabilities, float32 `[x, y, z, classes]`, and the voxels that overlap the grid, bool `[x, y, z]`.
    """
    ranges = [span.inside(n) for span, n in zip(spans, shape, strict=True)]
    first, end = (tf.stack(bounds) for bounds in zip(*ranges, strict=True))
    zero = tf.zeros([1], tf.int64)
    classes = tf.shape(probabilities, tf.int64)[3:]
    part = tf.slice(probabilities, tf.concat([first, zero], 0), tf.concat([end - first, classes], 0))
    back = [span.part(*bounds).inverse(n) for span, bounds, n in zip(spans, ranges, shape, strict=True)]
    for axis in (2, 0, 1):
        if is_portable():
            part = _resample_constant_axis(part, axis, back[axis])
        else:
            part = _resample_axis(part, tf.constant(axis), back[axis])
    return part, _overlap(back, end - first)


def _resample_axis(data: tf.Tensor, axis: tf.Tensor, span: SpanTensor) -> tf.Tensor:
    """Resamples one axis of `[x, y, z, channels]`, unless its voxels already match the span."""
    n = tf.shape(data, tf.int64)[axis]
    is_same = (span.start == 0.0) & (span.length == tf.cast(n, tf.float64)) & (span.size == n)
    shape = tf.tensor_scatter_nd_update(tf.shape(data, tf.int64), [[axis]], [span.size])
    along = tf.tensor_scatter_nd_update(tf.ones([4], tf.int64), [[axis]], [span.size])

    any_size = tf.TensorShape([None, None, None, data.shape[3]])

    def apply() -> tf.Tensor:
        columns, weights = _weights(n, span)

        def add(number: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            values = tf.gather(data, columns[:, number], axis=axis)
            return number + 1, tf.ensure_shape(total + tf.reshape(weights[:, number], along) * values, any_size)

        start = tf.ensure_shape(tf.zeros(shape, tf.float32), any_size)
        # One after the other, because parallel iterations would keep several tensors as large as the result.
        return tf.while_loop(
            lambda number, total: number < tf.shape(columns)[1],
            add,
            (0, start),
            (tf.TensorShape([]), any_size),
            parallel_iterations=1,
        )[1]

    return tf.cond(is_same, lambda: data, apply)


def _resample_constant_axis(data: tf.Tensor, axis: int, span: SpanTensor) -> tf.Tensor:
    """Resamples an axis of a size that is known during tracing, as a product with a weight matrix."""
    shape = tf.shape(data, tf.int64)
    radius, centers = _radius_and_centers(shape[axis], span)
    distances = tf.abs(tf.cast(tf.range(shape[axis]), tf.float64) + 0.5 - centers[:, tf.newaxis])
    weights = tf.maximum(tf.zeros([], tf.float64), 1.0 - distances / radius)
    weights = tf.cast(weights / tf.reduce_sum(weights, axis=1, keepdims=True), tf.float32)
    before, after = tf.reduce_prod(shape[:axis]), tf.reduce_prod(shape[axis + 1 :])
    lines = tf.matmul(weights, tf.reshape(data, tf.stack([before, shape[axis], after])))
    result = tf.reshape(lines, tf.concat([shape[:axis], [span.size], shape[axis + 1 :]], 0))
    return ensure_shape(result, [None, None, None, data.shape[3]])


def _radius_and_centers(n: tf.Tensor, span: SpanTensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the reach of a voxel's weights in a span, and the centers of the span's voxels, float64 `[size]`."""
    places = tf.cast(tf.range(span.size), tf.float64) + 0.5
    centers = span.start + places * span.length / tf.cast(span.size, tf.float64)
    return tf.maximum(tf.ones([], tf.float64), span.step), tf.clip_by_value(centers, 0.0, tf.cast(n, tf.float64))


def _weights(n: tf.Tensor, span: SpanTensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the voxels that contribute to each voxel of a span, int64 `[size, k]`, and their weights, float32."""
    radius, centers = _radius_and_centers(n, span)
    first = tf.cast(tf.floor(centers - radius), tf.int64)
    columns = first[:, tf.newaxis] + tf.range(tf.cast(tf.math.ceil(2 * radius), tf.int64) + 1)
    distances = tf.abs(tf.cast(columns, tf.float64) + 0.5 - centers[:, tf.newaxis])
    values = tf.maximum(tf.zeros([], tf.float64), 1.0 - distances / radius)
    values *= tf.cast((columns >= 0) & (columns < n), tf.float64)
    values /= tf.reduce_sum(values, axis=1, keepdims=True)
    return tf.clip_by_value(columns, 0, n - 1), tf.cast(values, tf.float32)


def _overlap(spans: Sequence[SpanTensor], shape: tf.Tensor) -> tf.Tensor:
    """Returns a mask of the span voxels that overlap a volume, bool `[x, y, z]`."""
    masks = []
    for axis, span in enumerate(spans):
        first, end = span.inside(shape[axis])
        along = tf.range(span.size)
        masks.append((along >= first) & (along < end))
    x, y, z = masks
    return x[:, tf.newaxis, tf.newaxis] & y[:, tf.newaxis] & z


def crop_to_nonzero(values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Crops an image to the box of its nonzero voxels; see `data.images.nonzero.crop_to_nonzero`.

    Args:
      values: float32 `[x, y, z, channels]`.

    Returns:
      The box, and the planes before and after it along x, y and z, int64 `[3, 2]`.
    """
    is_nonzero, margins = tf.reduce_any(values != 0, axis=-1), []
    for axis in range(3):
        used = tf.cast(tf.reduce_any(is_nonzero, axis=[other for other in range(3) if other != axis]), tf.int32)
        margins.append([tf.argmax(used), tf.argmax(tf.reverse(used, [0]))])
    margins = tf.convert_to_tensor(margins)
    begin, end = tf.unstack(tf.pad(margins, [[0, 1], [0, 0]]), axis=1)
    return tf.slice(values, begin, tf.shape(values, tf.int64) - begin - end), margins


def repair_values(values: tf.Tensor, channels: Sequence[str]) -> tf.Tensor:
    """Replaces impossible values, as `predict` does when it reads a file; see `data.images.repairs`.

    Args:
      values: float32 `[..., channels]`.
      channels: the names of the channels.
    """
    are_ct = tf.constant([*map(is_ct, channels)])
    is_fault = tf.math.is_nan(values) | (tf.math.is_inf(values) & ~are_ct)
    values = tf.where(is_fault, tf.constant([value_beyond(name) for name in channels], tf.float32), values)
    low, high = tf.where(are_ct, float(AIR_HU), -math.inf), tf.where(are_ct, float(MAX_HU), math.inf)
    return round_hu(tf.clip_by_value(values, low, high), channels)


def round_hu(values: tf.Tensor, channels: Sequence[str]) -> tf.Tensor:
    """Rounds Hounsfield units to integers, as records do."""
    are_ct = [*map(is_ct, channels)]
    if all(are_ct):
        return tf.round(values)
    return tf.where(tf.constant(are_ct), tf.round(values), values) if any(are_ct) else values
