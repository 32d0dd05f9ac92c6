"""Detection of objects: the inputs, the loss, and the detections."""

import dataclasses
from collections.abc import Callable

import gin
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.detection import detections
from mtf_imaging.models.detection.boxes import clip_to_image, encode, intersection_over_union
from mtf_imaging.models.detection.losses import focal_loss, huber_loss
from mtf_imaging.models.detection.matching import match, select
from mtf_imaging.models.detection.object_task import ObjectTask, image_sizes
from mtf_imaging.parameters import parameter


@gin.configurable(module="detection")
@dataclasses.dataclass(eq=False)
class ObjectDetection(ObjectTask):
    """Detection of objects by classified anchors, with the losses of RetinaNet (Lin et al. 2017).

    - An anchor is positive if its intersection over union with the box of an object is at least `match_threshold`, or
      the largest of all anchors. All others are negative (`matching.match`).
    - The class loss is the focal loss of all anchors and classes. The box loss is the Huber loss of the four deltas of
      the positive anchors. Both are sums over the batch, divided by the number of positive anchors of the batch plus
      one; the box loss is also divided by 4.
    - The loss is the class loss plus `box_loss_weight` times the box loss.

    Matching, losses and decoding are float32 or larger.

    `classes` makes the task usable without a data set. `task.for_data(description)` replaces it by the number of a data
    set.

    Attributes:
      network: a function (image, is_training) -> a list with a pair of class logits and box deltas for each level, such
        as `RetinaNet`, with a method `anchor_boxes(predictions, image_sizes)`, which returns the `LevelAnchors` of each
        level. If it has a method `with_classes(number)`, the task calls this method to get a network with the number of
        classes that it needs.
      classes: number of classes, without background.
      channels: number of channels of an image.
      max_boxes: largest number of objects in a training image.
      match_threshold: smallest intersection over union of positive anchors, above 0 and up to 1.
      focal_alpha: weight of the classes that are present in the class loss, from 0 to 1.
      focal_gamma: exponent of the class loss, at least 0.
      huber_delta: error of a delta at which the box loss becomes linear, above 0.
      box_loss_weight: weight of the box loss, at least 0.
      candidates: number of candidates per level; a candidate is a pair of an anchor and a class.
      score_threshold: smallest score of a detection.
      nms_threshold: a detection is left out if its intersection over union with a better detection of its class is
        above this number.
      max_detections: largest number of detections in an image.
    """

    network: Callable | None = parameter(None, example="detection.RetinaNet")
    classes: int = 90
    channels: int = 3
    max_boxes: int = 100
    match_threshold: float = parameter(0.5, most=1)
    focal_alpha: float = parameter(0.25, least=0, most=1)
    focal_gamma: float = parameter(1.5, least=0)
    huber_delta: float = 0.1
    box_loss_weight: float = parameter(50.0, least=0)
    candidates: int = 1000
    score_threshold: float = parameter(0.05, least=0, most=1)
    nms_threshold: float = parameter(0.5, least=0, most=1)
    max_detections: int = 100

    def loss(self, image, boxes, classes):
        """Computes the loss to minimize, and its parts.

        Args:
          image: Tensor[batch, height, width, channels]
          boxes: Tensor[batch, boxes, coords], the boxes of the objects: y0, x0, y1, x1 in pixels.
          classes: int32 Tensor[batch, boxes], the classes of the objects, -1 for padding.

        Returns:
          The loss, Tensor[], and a dict with "class_loss" and "box_loss", Tensors[]. All are float32 or larger.
        """
        mi.ops.expect_labels(classes, range(-1, self.classes))
        network = self._network()
        predictions = self._predictions(network, image, is_training=True)
        anchors = network.anchor_boxes(predictions, image_sizes(image))
        matches = match([intersection_over_union(level, boxes) for level in anchors], classes, self.match_threshold)
        positives, class_sums, box_sums = zip(
            *(
                self._level_sums(logits, deltas, level, matched, boxes, classes)
                for (logits, deltas), level, matched in zip(predictions, anchors, matches)
            )
        )
        # One more positive anchor, so that a batch without objects has a finite loss.
        normalizer = mi.ops.over_batch(mi.mtf.add_n(positives)) + 1
        class_loss = mi.ops.over_batch(mi.mtf.add_n(class_sums)) / normalizer
        box_loss = mi.ops.over_batch(mi.mtf.add_n(box_sums)) / (normalizer * 4)
        return class_loss + box_loss * self.box_loss_weight, {"class_loss": class_loss, "box_loss": box_loss}

    def predict(self, image):
        """Detects objects.

        Args:
          image: Tensor[batch, height, width, channels]

        Returns:
          A dict with "boxes", Tensor[batch, detections, coords], in pixels and within the image; "scores",
          Tensor[batch, detections] in descending order, 0 for no detection; and "classes", int32 Tensor[batch,
          detections], -1 for no detection. Boxes and scores are float32 or larger.
        """
        network = self._network()
        predictions = self._predictions(network, image, is_training=False)
        levels = [
            detections.candidates(logits, deltas, anchors, self.candidates)
            for (logits, deltas), anchors in zip(predictions, network.anchor_boxes(predictions, image_sizes(image)))
        ]
        boxes, scores = (mi.mtf.concat(list(tensors), "top") for tensors in zip(*levels))
        return detections.non_maximum_suppression(
            clip_to_image(boxes, *image_sizes(image)),
            scores,
            self.nms_threshold,
            self.score_threshold,
            self.max_detections,
        )

    def _level_sums(self, logits, deltas, anchors, matched, boxes, classes):
        """Returns a level's number of positive anchors, its total class loss and its total box loss."""
        positive = matched.positive
        present = mi.mtf.cast(select(classes, matched.index), positive.dtype) * positive + (positive - 1)
        class_losses = focal_loss(logits, mi.mtf.cast(present, tf.int32), self.focal_alpha, self.focal_gamma)
        targets = encode(anchors, select(boxes, matched.index))
        box_losses = mi.mtf.where(mi.mtf.greater(positive, 0), huber_loss(deltas, targets, self.huber_delta), 0)
        return [mi.mtf.reduce_sum(x) for x in (positive, class_losses, box_losses)]

    def _predictions(self, network, image, is_training):
        predictions = network(image, is_training=is_training)
        return [(self._widened(logits), mi.layers.widen(deltas)) for logits, deltas in predictions]
