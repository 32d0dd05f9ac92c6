"""Proposals: the boxes of a region proposal network that probably contain an object."""

import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.detection.boxes import clip_to_image, decode

PROPOSALS = "proposals"


def propose(scores, deltas, anchors, image_sizes, per_level=2000, number=1000, threshold=0.7):
    """Selects the boxes with the highest scores that do not overlap.

    Each level contributes its `per_level` boxes with the highest scores, clipped to the image. Non-maximum suppression
    (NMS) then removes every box that overlaps a box of its level with a higher score. Of all remaining boxes, the
    `number` boxes with the highest scores are kept. Boxes that have no area within the image are never proposed.

    Scores and deltas may be split. Only the best boxes of each level are gathered.

    Args:
      scores: Tensors[batch, height, width, anchors], one for each level.
      deltas: Tensors[batch, height, width, anchors, coords], relative to the anchors.
      anchors: the `LevelAnchors` of each level.
      image_sizes: height and width of the image in pixels.
      per_level: number of boxes per level before NMS.
      number: number of proposals.
      threshold: intersection over union above which NMS removes a box.

    Returns:
      Tensor[batch, proposals, coords], and Tensor[batch, proposals] with 1 for proposals that exist and 0 for padding.
      No gradients flow through them.
    """
    best = []
    for i, (score, delta, anchor) in enumerate(zip(scores, deltas, anchors)):
        boxes = clip_to_image(decode(mi.mtf.stop_gradient(delta), anchor), *image_sizes)
        values, (boxes,) = mi.ops.top_k(mi.mtf.stop_gradient(score), [boxes], per_level, name=f"proposals_{i}")
        best += [boxes, values]
    batch, coords = best[0].shape.dims[0], best[0].shape.dims[-1]
    dims = mi.mtf.Shape([batch, mi.mtf.Dimension(PROPOSALS, number)])

    def suppress(*best):
        kept = [_suppress(boxes, values, number, threshold) for boxes, values in zip(best[::2], best[1::2])]
        boxes, values = (tf.concat(tensors, 1) for tensors in zip(*kept))
        values, positions = tf.math.top_k(values, min(number, values.shape[1]))
        exists = values > values.dtype.min
        boxes = tf.where(exists[..., None], tf.gather(boxes, positions, batch_dims=1), tf.zeros([], boxes.dtype))
        missing = number - values.shape[1]
        return tf.pad(boxes, [(0, 0), (0, missing), (0, 0)]), tf.pad(
            tf.cast(exists, boxes.dtype), [(0, 0), (0, missing)]
        )

    dtype = best[0].dtype
    outputs = mi.mtf.slicewise(suppress, best, [dims + coords, dims], [dtype] * 2, [batch], name="proposals_nms")
    return tuple(mi.mtf.stop_gradient(x) for x in outputs)


def _suppress(boxes, scores, number, threshold):
    """Returns the boxes that non-maximum suppression keeps, and their scores, in descending order.

    Args:
      boxes: `[batch, n, 4]`
      scores: `[batch, n]`
      number, threshold: see `propose`.

    Returns:
      `[batch, min(n, number), 4]`, and the scores; padding has the smallest number of their dtype.
    """
    number = min(number, boxes.shape[1])
    has_area = tf.reduce_all(boxes[..., 2:] > boxes[..., :2], -1)
    kept, exists = [], []
    for image in range(boxes.shape[0]):
        # The kernel does not support float64. Scores of boxes without an area are below its threshold.
        low = tf.where(has_area[image], tf.cast(scores[image], tf.float32), -float("inf"))
        positions, count = tf.raw_ops.NonMaxSuppressionV4(
            boxes=tf.cast(boxes[image], tf.float32),
            scores=low,
            max_output_size=number,
            iou_threshold=threshold,
            score_threshold=tf.float32.min,
            pad_to_max_output_size=True,
        )
        kept.append(tf.ensure_shape(positions, [number]))
        exists.append(tf.range(number) < count)
    kept, exists = tf.stack(kept), tf.stack(exists)
    boxes, scores = (tf.gather(x, kept, batch_dims=1) for x in (boxes, scores))
    return boxes, tf.where(exists, scores, scores.dtype.min)
