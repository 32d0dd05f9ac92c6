"""Boxes with the coordinates y0, x0, y1, x1 in pixels: overlaps, and coordinates relative to anchors.

Functions that take anchors also take other boxes: `LevelAnchors`, or a Tensor[..., coords].
"""

import math

import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.detection.anchors import COORDS, LevelAnchors

MAX_LOG_SCALE = math.log(1000 / 16)  # a predicted box is at most 62.5 times as large as its anchor
_SMALLEST = 1e-8  # a substitute in pixels for the size of empty boxes, which has no logarithm


def intersection_over_union(anchors, boxes):
    """Computes the intersection area of each anchor and each box, divided by their union area.

    Args:
      anchors: `LevelAnchors`, or Tensor[batch, rois, coords].
      boxes: Tensor[batch, boxes, coords]. An empty box has no overlap with any anchor.

    Returns:
      Tensor[batch, height, width, anchors, boxes] or Tensor[batch, rois, boxes], from 0 to 1, with the dtype of the
      anchors.
    """
    batch, number, _ = boxes.shape.dims
    y0, x0, y1, x1 = sides(anchors)
    boxes = mi.mtf.cast(boxes, y0.dtype)
    top, left, bottom, right = sides(boxes)
    dims = anchors.dims if isinstance(anchors, LevelAnchors) else anchors.shape.dims[1:-1]
    whole = mi.mtf.Shape([batch, *dims, number])
    rows = _overlap(y0, y1, top, bottom)
    columns = _overlap(x0, x1, left, right)
    intersection = mi.mtf.multiply(rows, columns, output_shape=whole)
    area = mi.mtf.multiply(y1 - y0, x1 - x0, output_shape=_union(whole, y0, x0))
    box_area = mi.mtf.relu(bottom - top) * mi.mtf.relu(right - left)
    union = mi.mtf.add(area, box_area, output_shape=whole) - intersection
    return mi.mtf.cwise(tf.math.divide_no_nan, [intersection, union])


def encode(anchors, boxes, weights=(1.0, 1.0, 1.0, 1.0)):
    """Computes the deltas from anchors to boxes (Girshick et al. 2014).

    The deltas are the distances of the centers along y and x, relative to the size of the anchor, and the logarithms of
    the height and width ratios.

    Args:
      anchors: `LevelAnchors`, or Tensor[..., coords].
      boxes: Tensor[..., coords], a box for each anchor.
      weights: factors of the four deltas.

    Returns:
      Tensor[..., coords] with the shape of the boxes and the dtype of the anchors: dy, dx, dheight, dwidth.
    """
    y, x, height, width = _centers(anchors)
    box_y, box_x, box_height, box_width = _centers(mi.mtf.cast(boxes, y.dtype))
    deltas = [
        (box_y - y) / height,
        (box_x - x) / width,
        mi.mtf.log(mi.mtf.maximum(box_height, _SMALLEST)) - mi.mtf.log(height),
        mi.mtf.log(mi.mtf.maximum(box_width, _SMALLEST)) - mi.mtf.log(width),
    ]
    return _stack([delta * weight for delta, weight in zip(deltas, weights)])


def decode(deltas, anchors, weights=(1.0, 1.0, 1.0, 1.0), clip=MAX_LOG_SCALE):
    """Computes boxes from deltas. It is the inverse of `encode`.

    Args:
      deltas: Tensor[..., coords]
      anchors: `LevelAnchors`, or Tensor[..., coords], an anchor for each row of the deltas.
      weights: factors of the four deltas.
      clip: upper limit of the logarithms of height and width ratios.

    Returns:
      Tensor[..., coords] with the shape of the deltas: y0, x0, y1, x1.
    """
    y, x, height, width = _centers(anchors)
    deltas = mi.mtf.unstack(mi.mtf.cast(deltas, y.dtype), deltas.shape.dims[-1])
    dy, dx, dheight, dwidth = (delta / weight for delta, weight in zip(deltas, weights))
    y, x = dy * height + y, dx * width + x
    height = mi.mtf.exp(mi.mtf.minimum(dheight, clip)) * height
    width = mi.mtf.exp(mi.mtf.minimum(dwidth, clip)) * width
    return _stack([y - height / 2, x - width / 2, y + height / 2, x + width / 2])


def clip_to_image(boxes, height, width):
    """Clips boxes to an image of `height` x `width` pixels: Tensor[..., coords] -> Tensor[..., coords]."""
    limits = (height, width, height, width)
    return _stack([mi.mtf.minimum(mi.mtf.relu(side), float(limit)) for side, limit in zip(sides(boxes), limits)])


def sides(boxes):
    """Returns y0, x0, y1 and x1 of `LevelAnchors` or a Tensor[..., coords] as separate tensors."""
    if isinstance(boxes, LevelAnchors):
        return [boxes.y0, boxes.x0, boxes.y1, boxes.x1]
    return mi.mtf.unstack(boxes, boxes.shape.dims[-1])


def _centers(boxes):
    """Returns the y and x coordinates of the centers, the heights and the widths."""
    y0, x0, y1, x1 = sides(boxes)
    return (y0 + y1) / 2, (x0 + x1) / 2, y1 - y0, x1 - x0


def _overlap(low, high, box_low, box_high):
    """Returns the length along one dimension of the intersection of each anchor and each box.

    The result has the dimensions of both, with the batch first and the boxes last.
    """
    batch, number = box_low.shape.dims
    shape = mi.mtf.Shape([batch, *(dim for dim in low.shape.dims if dim != batch), number])
    first = mi.mtf.maximum(low, box_low, output_shape=shape)
    last = mi.mtf.minimum(high, box_high, output_shape=shape)
    return mi.mtf.relu(last - first)


def _union(order, *tensors):
    """Returns the shape with the dimensions of all tensors, in the order of a larger shape."""
    return mi.mtf.Shape([dim for dim in order.dims if any(dim in x.shape.dims for x in tensors)])


def _stack(coords):
    return mi.mtf.stack(coords, COORDS.name, axis=coords[0].shape.ndims)
