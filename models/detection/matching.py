"""Assignment of objects to anchors: which anchors are positive, and for which box."""

import dataclasses
import functools
import itertools

import tensorflow as tf

import mtf_imaging as mi


@dataclasses.dataclass(frozen=True)
class Match:
    """The boxes that are assigned to the anchors of a level.

    The dimensions `...` are the dimensions of the anchors, usually height, width and anchors. The masks are 1 or 0, and
    have the dtype of the overlaps.

    Attributes:
      index: int32 Tensor[batch, ...], the index of a box.
      positive: Tensor[batch, ...], 1 for anchors of the object in the box.
      negative: Tensor[batch, ...], 1 for anchors without an object. Anchors that are neither do not count.
    """

    index: mi.mtf.Tensor
    positive: mi.mtf.Tensor
    negative: mi.mtf.Tensor


def match(overlaps, classes, high=0.5, low=None, force=True):
    """Assigns a box to each anchor of all levels.

    An anchor gets the box with the largest overlap; of equal overlaps, the first. It is positive if the overlap is at
    least `high`, and negative if the overlap is below `low`.

    With `force`, the anchor with the largest overlap with a box is positive, and gets this box. If several anchors have
    the largest overlap, the first one by level, row, column and number is positive. If an anchor has the largest
    overlap with several boxes, it gets the first of them. A box that overlaps no anchor gets none.

    The anchors may be split along all dimensions. Each processor sends a number per box and level.

    Args:
      overlaps: Tensors[batch, ..., boxes], one for each level, such as the results of `boxes.intersection_over_union`.
      classes: int32 Tensor[batch, boxes]. Boxes of a class below 0 are padding.
      high: smallest overlap of positive anchors, above 0.
      low: upper limit of a negative anchor's overlap, by default `high`.
      force: whether the best anchor of each box is positive.

    Returns:
      A list with a `Match` for each level.
    """
    low = high if low is None else low
    is_object = mi.mtf.greater_equal(classes, 0)
    overlaps = [mi.mtf.where(is_object, x, 0) for x in overlaps]
    if not force:
        return [_thresholded(x, None, None, high, low) for x in overlaps]
    positions, dtype = _positions(overlaps)
    (boxes,) = classes.shape.dims[1:]
    per_box = mi.mtf.Shape([classes.shape.dims[0], boxes])
    peaks = [mi.mtf.reduce_max(x, output_shape=per_box) for x in overlaps]
    peak = functools.reduce(mi.mtf.maximum, peaks)
    firsts = [_first_position(x, peak, position, dtype) for x, position in zip(overlaps, positions)]
    first = functools.reduce(mi.mtf.minimum, firsts)
    return [_thresholded(x, position, first, high, low) for x, position in zip(overlaps, positions)]


def select(values, index):
    """Returns the values of the boxes that are assigned to anchors.

    Args:
      values: Tensor[batch, boxes, coords] or Tensor[batch, boxes].
      index: int32 Tensor[batch, ...], the index of a box for each anchor.

    Returns:
      Tensor[batch, ..., coords] or Tensor[batch, ...], without a gradient.
    """
    shape = mi.mtf.Shape([*index.shape.dims, *values.shape.dims[2:]])
    fn = functools.partial(tf.gather, axis=1, batch_dims=1)
    values = mi.mtf.stop_gradient(values) if values.dtype.is_floating else values
    return mi.mtf.slicewise(fn, [values, index], shape, values.dtype, index.shape.dims)


def _positions(overlaps):
    """Returns the position of each anchor in the order of all anchors, Tensors[...], and their dtype."""
    dims = [x.shape.dims[1:-1] for x in overlaps]
    sizes = [mi.mtf.Shape(level).size for level in dims]
    # GPUs have few kernels for int32. A float32 is exact up to 2^24.
    dtype = tf.float32 if sum(sizes) < 2**24 else tf.float64
    starts = [0, *itertools.accumulate(sizes)]
    positions = []
    for x, level, start in zip(overlaps, dims, starts):
        positions.append(row_major(x.mesh, level, dtype) + float(start))
    return positions, dtype


def row_major(mesh, dims, dtype):
    """Returns the position of each element in row-major order, Tensor[dims...]."""
    position, step, shape = None, 1, mi.mtf.Shape(dims)
    for dim in reversed(dims):
        index = mi.mtf.broadcast(mi.mtf.range(mesh, dim, dtype) * float(step), shape)
        position = index if position is None else position + index
        step *= dim.size
    return position


def _first_position(overlap, peak, position, dtype):
    """Returns the first position at which the overlap with each box is `peak`: Tensor[batch, boxes].

    The position is the maximum of the dtype for boxes without such a position or without any overlap.
    """

    def local(overlap, peak, position):
        hit = (overlap == _spread(peak, overlap)) & (overlap > 0)
        return tf.where(hit, position[tf.newaxis, ..., tf.newaxis], tf.constant(dtype.max, dtype))

    dims = overlap.shape.dims
    found = mi.mtf.slicewise(local, [overlap, peak, position], overlap.shape, dtype, dims)
    return mi.mtf.reduce_min(found, output_shape=peak.shape)


def _thresholded(overlap, position, first, high, low):
    """Returns the `Match` of a level.

    Args:
      overlap: Tensor[batch, ..., boxes]
      position: Tensor[...], the position of each anchor, or None.
      first: Tensor[batch, boxes], the positions of the forced anchors, or None.
      high, low: see `match`.
    """

    def local(overlap, *forcing):
        best = tf.reduce_max(overlap, -1)
        index = tf.argmax(overlap, -1, tf.int32)
        positive, negative = best >= high, best < low
        if forcing:
            position, first = forcing
            hits = tf.cast(position[tf.newaxis, ..., tf.newaxis] == _spread(first, overlap), overlap.dtype)
            is_forced = tf.reduce_max(hits, -1) > 0
            index = tf.where(is_forced, tf.argmax(hits, -1, tf.int32), index)
            positive, negative = positive | is_forced, negative & ~is_forced
        return index, tf.cast(positive, overlap.dtype), tf.cast(negative, overlap.dtype)

    *dims, _ = overlap.shape.dims
    inputs = [overlap] if position is None else [overlap, position, first]
    dtypes = [tf.int32, overlap.dtype, overlap.dtype]
    return Match(*mi.mtf.slicewise(local, inputs, [mi.mtf.Shape(dims)] * 3, dtypes, dims))


def _spread(per_box, overlap):
    """Reshapes [batch, boxes] so that it broadcasts to [batch, ..., boxes]."""
    between = [1] * (len(overlap.shape) - 2)
    return tf.reshape(per_box, [per_box.shape[0], *between, per_box.shape[1]])
