"""Detections from the predictions for all anchors: the best candidates of each level, and non-maximum suppression."""

import functools

import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.detection.boxes import decode


def candidates(logits, deltas, anchors, number):
    """Returns the boxes of a level's `number` pairs (anchor, class) with the highest scores.

    Only the anchors with the `number` highest scores of any class can be among these pairs, so only their predictions
    are gathered. Pairs with equal scores are ordered by the highest score of their anchor, then by row, column, anchor
    and class.

    Args:
      logits: Tensor[batch, height, width, anchors, classes]
      deltas: Tensor[batch, height, width, anchors, coords]
      anchors: the `LevelAnchors`.
      number: number of pairs.

    Returns:
      Boxes Tensor[batch, top, coords] and scores Tensor[batch, top, classes], from 0 to 1. `top` has the size `number`,
      or the number of anchors if that is smaller. The score of a pair is 0 if it is not one of the `number` highest.
    """
    each = mi.mtf.Shape(logits.shape.dims[:-1])
    best = mi.mtf.reduce_max(logits, output_shape=each)
    _, (logits, deltas, boxes) = mi.ops.top_k(best, [logits, deltas, anchors.to_boxes()], number, name="candidates")
    fn = functools.partial(_highest_scores, number=number)
    scores = mi.mtf.slicewise(fn, [logits], logits.shape, logits.dtype, logits.shape.dims[:1], name="candidate_scores")
    return decode(deltas, boxes), scores


def _highest_scores(logits, number):
    """Returns the sigmoids of the `number` highest logits of each example, and 0 for all others."""
    batch, rows, classes = logits.shape
    flat = tf.reshape(logits, [batch, rows * classes])
    values, indices = tf.math.top_k(flat, min(number, rows * classes))
    examples = tf.broadcast_to(tf.range(batch)[:, tf.newaxis], indices.shape)
    scores = tf.scatter_nd(tf.stack([examples, indices], -1), tf.sigmoid(values), [batch, rows * classes])
    return tf.reshape(scores, logits.shape)


def non_maximum_suppression(boxes, scores, iou_threshold=0.5, score_threshold=0.05, number=100):
    """Returns the boxes with the highest scores, without boxes that overlap a better box of the same class.

    Every processor computes it from the whole tensors, in float32. Only the batch may be split.

    Args:
      boxes: Tensor[batch, ..., coords], or Tensor[batch, ..., classes, coords] with a box for each class.
      scores: Tensor[batch, ..., classes], where `...` is one dimension.
      iou_threshold: a box is left out if its intersection over union with a better box of its class is above this
        number.
      score_threshold: boxes with a score up to this number are left out.
      number: number of detections per image.

    Returns:
      A dict with "boxes", Tensor[batch, detections, coords]; "scores", Tensor[batch, detections] in descending order;
      and "classes", int32 Tensor[batch, detections]. If an image has fewer detections, the remaining entries have boxes
      and scores of 0 and classes of -1.
    """
    batch, coords = boxes.shape.dims[0], boxes.shape.dims[-1]
    detections = mi.mtf.Dimension("detections", number)
    shape = mi.mtf.Shape([batch, detections])
    fn = functools.partial(_suppress, iou_threshold=iou_threshold, score_threshold=score_threshold, number=number)
    outputs = mi.mtf.slicewise(
        fn,
        [boxes, scores],
        [mi.mtf.Shape([batch, detections, coords]), shape, shape],
        [boxes.dtype, scores.dtype, tf.int32],
        [batch],
        name="non_maximum_suppression",
    )
    return dict(zip(("boxes", "scores", "classes"), outputs))


def _suppress(boxes, scores, iou_threshold, score_threshold, number):
    dtypes = boxes.dtype, scores.dtype
    boxes = boxes if len(boxes.shape) == 4 else boxes[:, :, tf.newaxis]
    boxes, values, classes, valid = mi.ops.combined_non_max_suppression(
        tf.cast(boxes, tf.float32), tf.cast(scores, tf.float32), number, iou_threshold, score_threshold
    )
    is_valid = tf.range(number) < valid[:, tf.newaxis]
    classes = tf.where(is_valid, tf.cast(classes, tf.int32), -1)
    return tf.cast(boxes, dtypes[0]), tf.cast(values, dtypes[1]), classes
