"""The region proposal network (RPN): scores and boxes of anchors, and their losses."""

import dataclasses

import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.detection.anchors import COORDS
from mtf_imaging.models.detection.boxes import encode, intersection_over_union
from mtf_imaging.models.detection.head_layers import HeadLayers
from mtf_imaging.models.detection.losses import huber_loss
from mtf_imaging.models.detection.matching import match, select
from mtf_imaging.models.detection.sampling import anchor_priorities, sample_anchors

_HUBER_DELTA = 1 / 9
_STDDEV = 0.01  # for the initial weights


@dataclasses.dataclass(frozen=True)
class RPNHead:
    """A 3 x 3 convolution with a ReLU, and two 1 x 1 convolutions. All levels share the weights, but not the norms.

    Attributes:
      layers: a `HeadLayers`.
      filters: number of filters of the 3 x 3 convolution.
      anchors: number of anchors of each cell.
    """

    layers: HeadLayers
    filters: int
    anchors: int

    def __call__(self, features, min_level):
        """Computes the scores and the boxes of all anchors.

        Args:
          features: Tensors[batch, height, width, channels], one for each level.
          min_level: the first level.

        Returns:
          Two lists with a Tensor for each level, float32 or larger: the logits of the scores [batch, height, width,
          anchors], and the deltas from the anchors to the boxes [batch, height, width, anchors, coords].
        """
        scores, deltas = [], []
        anchors = mi.mtf.Dimension("anchors", self.anchors)
        with tf.compat.v1.variable_scope("rpn"):
            for level, x in enumerate(features, min_level):
                x = self.layers.conv(x, "conv", self.filters, 3, _STDDEV, norm_name=f"level{level}_norm")
                scores.append(self.layers.outputs(x, "scores", [anchors], _STDDEV))
                deltas.append(self.layers.outputs(x, "boxes", [anchors, COORDS], _STDDEV))
        return scores, deltas


@dataclasses.dataclass(frozen=True)
class AnchorSampling:
    """The anchors from which a region proposal network learns.

    Attributes:
      number: number of anchors per image.
      positive_fraction: largest fraction of positive anchors.
      high: smallest intersection over union (IoU) of a positive anchor with an object. The best anchor of each object
          is positive with any IoU.
      low: IoU below which an anchor is negative.
    """

    number: int = 256
    positive_fraction: float = 0.5
    high: float = 0.7
    low: float = 0.3


def rpn_losses(scores, deltas, anchors, boxes, classes, sampling):
    """Computes the losses of a region proposal network.

    Both losses cover random anchors, which `sampling` describes. The score loss is the sum of the cross entropies,
    divided by the desired number of anchors. The box loss is a sum over levels: each level adds the mean Huber loss of
    its positive anchors' boxes, or 0 if it has none. The few positive anchors of a coarse level therefore count as much
    as the many positive anchors of a fine level. All tensors with a value per anchor stay split.

    Args:
      scores, deltas: the results of `RPNHead`.
      anchors: the `LevelAnchors` of each level.
      boxes: Tensor[batch, boxes, coords], the boxes of the objects.
      classes: int32 Tensor[batch, boxes], -1 for padding.
      sampling: an `AnchorSampling`.

    Returns:
      The score loss and the box loss, Tensors[].
    """
    overlaps = [intersection_over_union(level, boxes) for level in anchors]
    matches = match(overlaps, classes, sampling.high, sampling.low)
    positives, negatives = sample_anchors(
        [level.positive for level in matches],
        [level.negative for level in matches],
        anchor_priorities(scores),
        sampling.number,
        sampling.positive_fraction,
    )
    score_losses, box_losses = [], []
    for score, delta, level, each, positive, negative in zip(scores, deltas, anchors, matches, positives, negatives):
        losses = mi.ops.sigmoid_cross_entropy(score, mi.mtf.cast(positive, score.dtype))
        score_losses.append(mi.mtf.reduce_sum(mi.mtf.where(mi.mtf.greater(positive + negative, 0), losses, 0)))
        targets = encode(level, select(boxes, each.index))
        losses = huber_loss(delta, mi.mtf.stop_gradient(targets), _HUBER_DELTA)
        losses = mi.mtf.where(mi.mtf.greater(positive, 0), losses, 0)
        number = mi.mtf.reduce_sum(mi.mtf.cast(positive, delta.dtype))
        box_losses.append(mean_box_loss(mi.mtf.reduce_sum(losses), number))
    batch = scores[0].shape.dims[0].size
    score_loss = mi.mtf.add_n(score_losses) / float(batch * sampling.number)
    return score_loss, mi.mtf.add_n(box_losses)


def mean_box_loss(total, number):
    """Divides the sum of box coordinate losses by the number of coordinates, over all micro-batches of a batch.

    Args:
      total: Tensor[], the sum over a micro-batch.
      number: Tensor[], the number of boxes in the micro-batch.

    Returns:
      Tensor[], 0 without boxes.
    """
    return mi.ops.over_batch(total) / (mi.mtf.maximum(mi.ops.over_batch(number), 1) * 4.0)
