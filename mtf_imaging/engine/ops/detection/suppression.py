"""Non-maximum suppression on one device, also for converters that support it only without classes."""

import tensorflow as tf

from mtf_imaging.engine.meshes.portable import is_portable


def combined_non_max_suppression(
    boxes: tf.Tensor,
    scores: tf.Tensor,
    number: int,
    iou_threshold: float,
    score_threshold: float,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Suppresses boxes that overlap a better box of the same class.

    Args:
      boxes: float32 `[batch, boxes, classes, 4]`; `[batch, boxes, 1, 4]` for boxes that all classes share.
      scores: float32 `[batch, boxes, classes]`.
      number: the number of detections per image.
      iou_threshold: a box is left out if its intersection over union with a better box is above this number.
      score_threshold: boxes with a score up to this number are left out.

    Returns:
      The results of `tf.image.combined_non_max_suppression`: boxes `[batch, number, 4]`, scores `[batch, number]` in
      descending order, classes `[batch, number]` and the numbers of valid detections `[batch]`. Portable operations
      need a batch of one image.
    """
    if is_portable():
        results = _one_image(boxes[0], scores[0], number, iou_threshold, score_threshold)
        return tuple(result[tf.newaxis] for result in results)
    return tf.image.combined_non_max_suppression(
        boxes,
        scores,
        max_output_size_per_class=number,
        max_total_size=number,
        iou_threshold=iou_threshold,
        score_threshold=score_threshold,
        clip_boxes=False,
    )


def _one_image(
    boxes: tf.Tensor, scores: tf.Tensor, number: int, iou_threshold: float, score_threshold: float
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Suppresses boxes class by class, and chooses the best boxes of all classes."""
    candidates: list[tuple[tf.Tensor, tf.Tensor]] = []
    for label in range(scores.shape[1]):
        own, values = boxes[:, min(label, boxes.shape[1] - 1)], scores[:, label]
        # TFLite needs a result of a fixed size; entries after the last detection have the index 0.
        selected, valid = tf.raw_ops.NonMaxSuppressionV4(
            boxes=own,
            scores=values,
            max_output_size=number,
            iou_threshold=iou_threshold,
            score_threshold=score_threshold,
            pad_to_max_output_size=True,
        )
        is_valid = tf.range(number) < valid
        candidates.append((tf.gather(own, selected), tf.where(is_valid, tf.gather(values, selected), -1.0)))
    best, order = tf.math.top_k(tf.concat([values for _, values in candidates], 0), number)
    is_valid = best >= 0
    chosen = tf.gather(tf.concat([own for own, _ in candidates], 0), order)
    labels = tf.cast(order // number, tf.float32)
    zero = tf.zeros([], tf.float32)
    return (
        tf.where(is_valid[:, tf.newaxis], chosen, zero),
        tf.where(is_valid, best, zero),
        tf.where(is_valid, labels, zero),
        tf.reduce_sum(tf.cast(is_valid, tf.int32)),
    )
