"""Random samples of anchors and of regions of interest (RoIs), with a limited number of positives."""

import typing

import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.detection.matching import row_major

ROIS = "rois"  # the layout may split it; before `mi.ops.scatter_slices`, it is called "rois_whole"
ROIS_WHOLE = "rois_whole"

_UNIT = 2.0**-50  # with 24 random bits above it, it leaves 26 bits for the number of an anchor


def anchor_priorities(masks):
    """Draws a random number from 0 to 1 for each anchor. No two anchors of an image have the same number.

    The numbers depend neither on the layout nor on the number of micro-batches.

    Args:
      masks: Tensors[batch, height, width, anchors], one for each level. Only their shapes matter.

    Returns:
      float64 Tensors of the same shapes.
    """
    priorities, first = [], 0
    for x in masks:
        random = mi.mtf.cast(mi.mtf.random_uniform(x.mesh, x.shape), tf.float64)
        number = row_major(x.mesh, x.shape.dims[1:], tf.float64)
        # The index of the anchor distinguishes equal random numbers, so a threshold selects exactly k anchors.
        priorities.append(random + (2.0**26 - 1 - first - number) * _UNIT)
        first += number.shape.size
    return priorities


def sample_anchors(positives, negatives, priorities, number=256, positive_fraction=0.5):
    """Randomly selects anchors of each image.

    At most `number positive_fraction` of them are positive, and negative anchors fill the rest. Only the largest
    priorities of each level are gathered; the masks stay split.

    Args:
      positives: Tensors[batch, height, width, anchors], one for each level: 1 for positive anchors, else 0.
      negatives: the same for negative anchors. All other anchors are never selected.
      priorities: float64 Tensors of the same shapes, without equal values, from 0 up. The anchors with the largest
        priorities are selected.
      number: number of anchors to select.
      positive_fraction: largest fraction of positive anchors.

    Returns:
      Two lists of Tensors with the shapes and dtypes of `positives`: 1 for the selected positive anchors, and 1 for the
      selected negative anchors.
    """
    most_positives = int(number * positive_fraction)
    # Positive numbers for the anchors that may be selected, and 0 for all others.
    wanted = [
        [(priority + 1) * mi.mtf.cast(mask, priority.dtype) for mask, priority in zip(masks, priorities)]
        for masks in (positives, negatives)
    ]
    best = []
    for kind, each, k in (("positive", wanted[0], most_positives), ("negative", wanted[1], number)):
        best += [mi.ops.top_k(x, [], k, name=f"{kind}_anchors_{i}")[0] for i, x in enumerate(each)]
    batch = best[0].shape.dims[0]

    def thresholds(*best):
        levels = len(best) // 2
        positive, negative = (tf.concat(tensors, 1) for tensors in (best[:levels], best[levels:]))
        positive_threshold, count = _threshold(positive, tf.fill(tf.shape(positive)[:1], most_positives))
        return positive_threshold, _threshold(negative, number - count)[0]

    shape, dtype = mi.mtf.Shape([batch]), tf.float64
    limits = mi.mtf.slicewise(thresholds, best, [shape] * 2, [dtype] * 2, [batch], name="anchor_thresholds")
    return tuple(
        [mi.mtf.cast(mi.mtf.greater_equal(x, limit), mask.dtype) for x, mask in zip(each, masks)]
        for each, limit, masks in zip(wanted, limits, (positives, negatives))
    )


def _threshold(priorities, counts):
    """Returns the smallest of each image's `counts` largest positive priorities, and the number of these.

    Args:
      priorities: `[batch, anchors]`, at most 2.
      counts: int32 `[batch]`.

    Returns:
      `[batch]`, more than any priority if none is positive; and int32 `[batch]`.
    """
    ordered = tf.sort(priorities, axis=1, direction="DESCENDING")
    counts = tf.minimum(counts, tf.math.count_nonzero(ordered > 0, axis=1, dtype=tf.int32))
    last = tf.gather(ordered, tf.maximum(counts - 1, 0), axis=1, batch_dims=1)
    return tf.where(counts > 0, last, tf.constant(3.0, ordered.dtype)), counts


class RoIs(typing.NamedTuple):
    """The RoIs from which the heads learn. The dimension of the RoIs is called `rois_whole`.

    Attributes:
      boxes: Tensor[batch, rois, coords]
      classes: int32 Tensor[batch, rois]: 0 for the background, i + 1 for an object of class i.
      matches: int32 Tensor[batch, rois], the index of the matched object. It has no meaning for the background.
      objects: Tensor[batch, rois, coords], the boxes of the matched objects.
      weights: Tensor[batch, rois], 1 for selected RoIs, and 0 for padding.
    """

    boxes: mi.mtf.Tensor
    classes: mi.mtf.Tensor
    matches: mi.mtf.Tensor
    objects: mi.mtf.Tensor
    weights: mi.mtf.Tensor


def sample_rois(proposals, valid, boxes, classes, priorities, number=512, foreground=128, threshold=0.5):
    """Randomly selects RoIs of each image from its proposals and the boxes of its objects.

    A candidate is foreground if its intersection over union (IoU) with an object is at least `threshold`; it matches
    the object with the largest IoU. Foreground RoIs come first. Background RoIs follow, then RoIs with weight 0 if
    there are too few candidates. An object whose box has no area does not count.

    Args:
      proposals: Tensor[batch, proposals, coords]
      valid: Tensor[batch, proposals], 1 for proposals that exist, else 0.
      boxes: Tensor[batch, boxes, coords], the boxes of the objects.
      classes: int32 Tensor[batch, boxes], -1 for padding.
      priorities: Tensor[batch, candidates], from 0 up, one for each proposal and then one for each object. The
          candidates with the largest priorities are selected; of equal priorities, the first.
      number: number of RoIs.
      foreground: largest number of foreground RoIs.
      threshold: smallest IoU of foreground RoIs.

    Returns:
      `RoIs`. No gradients flow through them.
    """
    batch, coords = proposals.shape.dims[0], proposals.shape.dims[-1]

    def sample(proposals, valid, boxes, classes, priorities):
        exists = (classes >= 0) & tf.reduce_all(boxes[..., 2:] > boxes[..., :2], -1)
        candidates = tf.concat([proposals, boxes], 1)
        usable = tf.concat([valid > 0, exists], 1)
        ious = tf.where(exists[:, None], pairwise_iou(candidates, boxes), tf.constant(-1.0, boxes.dtype))
        matches = tf.argmax(ious, -1, output_type=tf.int32)
        is_object = usable & (tf.reduce_max(ious, -1) >= threshold)
        fore, num_fore = _largest(priorities, is_object, foreground)
        back, num_back = _largest(priorities, usable & ~is_object, number)
        at = tf.range(number)[None]
        is_fore, behind = at < num_fore[:, None], at - num_fore[:, None]
        chosen = tf.where(is_fore, _take(fore, at + tf.zeros_like(behind)), _take(back, behind))
        used = is_fore | ((behind >= 0) & (behind < num_back[:, None]))
        weights = tf.cast(used, boxes.dtype)
        matched = tf.where(is_fore, tf.gather(matches, chosen, batch_dims=1), 0)
        return (
            tf.where(used[..., None], tf.gather(candidates, chosen, batch_dims=1), tf.zeros([], boxes.dtype)),
            tf.where(is_fore, tf.gather(classes, matched, batch_dims=1) + 1, 0),
            matched,
            tf.gather(boxes, matched, batch_dims=1),
            weights,
        )

    rois = mi.mtf.Shape([batch, mi.mtf.Dimension(ROIS_WHOLE, number)])
    inputs = [mi.mtf.stop_gradient(x) for x in (proposals, valid, boxes)] + [classes, priorities]
    dtypes = [boxes.dtype, tf.int32, tf.int32, boxes.dtype, boxes.dtype]
    outputs = mi.mtf.slicewise(
        sample, inputs, [rois + coords, rois, rois, rois + coords, rois], dtypes, [batch], name="sample_rois"
    )
    return RoIs(*(mi.mtf.stop_gradient(x) if x.dtype.is_floating else x for x in outputs))


def pairwise_iou(boxes, others):
    """Returns the intersection over union of box pairs: `[..., n, 4]` and `[..., m, 4]` -> `[..., n, m]`."""
    a, b = boxes[..., :, None, :], others[..., None, :, :]
    overlap = tf.maximum(tf.minimum(a[..., 2:], b[..., 2:]) - tf.maximum(a[..., :2], b[..., :2]), 0)
    overlap = overlap[..., 0] * overlap[..., 1]
    areas = [tf.reduce_prod(x[..., 2:] - x[..., :2], -1) for x in (a, b)]
    return tf.math.divide_no_nan(overlap, areas[0] + areas[1] - overlap)


def _largest(priorities, mask, k):
    """Returns the positions of the k largest priorities within a mask, in descending order, and their number."""
    values, positions = tf.math.top_k(
        tf.where(mask, priorities, tf.constant(-1.0, priorities.dtype)), min(k, mask.shape[1])
    )
    return positions, tf.math.count_nonzero(values >= 0, axis=1, dtype=tf.int32)


def _take(rows, positions):
    """Returns `rows[:, positions]` for each image, with positions clipped to the existing rows."""
    return tf.gather(rows, tf.clip_by_value(positions, 0, rows.shape[1] - 1), batch_dims=1)
