"""Instance segmentation: the inputs, the losses and the predictions of Mask R-CNN."""

import dataclasses
from typing import Any

import gin
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.detection.boxes import clip_to_image, decode, encode
from mtf_imaging.models.detection.detections import non_maximum_suppression
from mtf_imaging.models.detection.losses import huber_loss
from mtf_imaging.models.detection.mask_targets import mask_targets
from mtf_imaging.models.detection.object_task import ObjectTask, image_sizes
from mtf_imaging.models.detection.proposals import PROPOSALS, propose
from mtf_imaging.models.detection.rpn import AnchorSampling, mean_box_loss, rpn_losses
from mtf_imaging.models.detection.sampling import ROIS, ROIS_WHOLE, sample_rois
from mtf_imaging.parameters import parameter

_BOX_WEIGHTS = (10.0, 10.0, 5.0, 5.0)
_HUBER_DELTA = 1.0


@gin.configurable(module="detection")
@dataclasses.dataclass(eq=False)
class InstanceSegmentation(ObjectTask):
    """Detection of objects with their masks.

    The loss is the sum of five losses: the score loss and the box loss of the region proposal network (`rpn_losses`),
    the mean cross entropy of the RoI classes, the mean Huber loss of the foreground RoI boxes, and the mean cross
    entropy of their mask pixels.

    Training chooses anchors and RoIs at random. The choice depends only on the seed, the step, and the position of an
    image in the batch, and not on the layout or the number of micro-batches.

    `classes` makes the task usable without a data set. `task.for_data(description)` replaces it by the number of a data
    set.

    Attributes:
      network: a `MaskRCNN`. If it leaves the number of classes open, the task chooses it.
      classes: number of classes without the background.
      max_boxes: largest number of objects in a training image.
      mask_size: height and width of an object's mask in pixels. The mask covers the box of the object.
      channels: number of channels of an image.
      anchor_samples: number of anchors per image from which the region proposal network learns. At most half of them
        are positive.
      rois: number of regions of interest (RoIs) per image from which the heads learn.
      foreground: largest fraction of foreground among these RoIs. The mask head learns from foreground RoIs only.
      foreground_threshold: smallest intersection over union (IoU) of a foreground RoI with an object.
      train_per_level: number of boxes per level from which training chooses proposals.
      predict_per_level: the same number in prediction.
      proposals: number of proposals per image.
      proposal_threshold: a box is not proposed if its IoU with a better box of its level is above this number.
      score_threshold: a detection has a score above this number.
      nms_threshold: a detection is left out if its IoU with a better detection of its class is above this number.
      max_detections: largest number of detections in an image.
    """

    network: Any = parameter(None, example="detection.MaskRCNN")
    classes: int = 90
    max_boxes: int = 100
    mask_size: int = 112
    channels: int = 3
    anchor_samples: int = 256
    rois: int = 512
    foreground: float = parameter(0.25, most=1)
    foreground_threshold: float = parameter(0.5, most=1)
    train_per_level: int = 2000
    predict_per_level: int = 1000
    proposals: int = 1000
    proposal_threshold: float = parameter(0.7, least=0, most=1)
    score_threshold: float = parameter(0.05, least=0, most=1)
    nms_threshold: float = parameter(0.5, least=0, most=1)
    max_detections: int = 100

    def __post_init__(self):
        super().__post_init__()
        if self._foreground_rois < 1:
            raise mi.ConfigError(
                f"InstanceSegmentation.foreground = {self.foreground!r}: with rois = {self.rois}, no RoI is "
                "foreground, so the masks cannot be learned. Fix: use a larger fraction, or more RoIs."
            )

    def inputs(self, batch_size, sizes, dtype=tf.float32, labels=True):
        """Returns the inputs of a program, by name; see `ObjectTask.inputs`."""
        inputs = super().inputs(batch_size, sizes, dtype, labels)
        if labels:
            masks = f"boxes:{self.max_boxes},mask_height:{self.mask_size},mask_width:{self.mask_size}"
            inputs["masks"] = (f"batch:{batch_size},{masks}", tf.float32)
        return inputs

    def loss(self, image, boxes, classes, masks):
        """Computes the loss to minimize, and its five parts.

        Args:
          image: Tensor[batch, height, width, channels]
          boxes: Tensor[batch, boxes, coords], the boxes of the objects: y0, x0, y1, x1 in pixels.
          classes: int32 Tensor[batch, boxes], the class of each object, and -1 for padding.
          masks: Tensor[batch, boxes, mask_height, mask_width], the mask of each object within its box.

        Returns:
          The loss, Tensor[], and a dict of Tensors[]: "rpn_score_loss", "rpn_box_loss", "class_loss", "box_loss" and
          "mask_loss". All are float32 or larger.
        """
        mi.ops.expect_labels(classes, range(-1, self.classes))
        network = self._network()
        boxes, masks = (mi.mtf.cast(x, mi.ops.master_dtype(image.dtype)) for x in (boxes, masks))
        features = network.features(image, is_training=True)
        scores, deltas, anchors = self._regions(network, features, image, is_training=True)
        sampling = AnchorSampling(self.anchor_samples)
        measures = dict(
            zip(("rpn_score_loss", "rpn_box_loss"), rpn_losses(scores, deltas, anchors, boxes, classes, sampling))
        )
        proposals, valid = self._propose(image, scores, deltas, anchors, self.train_per_level)
        rois = self._sample(proposals, valid, boxes, classes)
        measures |= self._box_losses(network, features, rois)
        measures["mask_loss"] = self._mask_loss(network, features, rois, masks)
        return mi.mtf.add_n(list(measures.values())), measures

    def predict(self, image):
        """Predicts objects.

        Args:
          image: Tensor[batch, height, width, channels]

        Returns:
          A dict of Tensors, float32 or larger: "boxes" [batch, detections, coords] in pixels; "scores"
          [batch, detections] in descending order, 0 for padding; "classes" [batch, detections], int32, -1 for padding;
          and "masks" [batch, detections, mask_height, mask_width], the probabilities that the pixels of the box belong
          to the object.
        """
        network = self._network()
        features = network.features(image, is_training=False)
        proposals, valid = self._propose(
            image, *self._regions(network, features, image, is_training=False), self.predict_per_level
        )
        detections = self._detect(network, features, image, proposals, valid)
        masks = self._predict_masks(network, features, detections["boxes"], detections["classes"])
        return {**detections, "masks": masks}

    @property
    def _foreground_rois(self):
        return round(self.rois * self.foreground)

    def _regions(self, network, features, image, is_training):
        """Returns the score logits, the deltas and the `LevelAnchors` of all levels."""
        scores, deltas = network.region_scores(features, is_training)
        levels, sizes = zip(scores, network.strides), image_sizes(image)
        anchors = [network.level_anchors.boxes(x, stride, sizes) for x, stride in levels]
        return scores, deltas, anchors

    def _propose(self, image, scores, deltas, anchors, per_level):
        return propose(scores, deltas, anchors, image_sizes(image), per_level, self.proposals, self.proposal_threshold)

    def _sample(self, proposals, valid, boxes, classes):
        candidates = mi.mtf.Dimension("candidates", self.proposals + self.max_boxes)
        shape = mi.mtf.Shape([proposals.shape.dims[0], candidates])
        priorities = mi.mtf.random_uniform(proposals.mesh, shape, dtype=proposals.dtype)
        limits = (self.rois, self._foreground_rois, self.foreground_threshold)
        return sample_rois(proposals, valid, boxes, classes, priorities, *limits)

    def _box_losses(self, network, features, rois):
        logits, deltas = network.classify(features, rois.boxes, is_training=True)
        names = ("boxes", "classes", "objects", "weights")
        boxes, classes, objects, weights = (
            mi.ops.scatter_slices(getattr(rois, name), ROIS, f"roi_{name}_scatter") for name in names
        )
        dim = logits.shape.dims[-1]
        class_loss = mi.ops.weighted_cross_entropy(logits, classes, dim, mask=weights)
        deltas = mi.mtf.gather(deltas, classes, dim)
        foreground = mi.mtf.greater(classes, 0)
        targets = mi.mtf.stop_gradient(encode(boxes, objects, _BOX_WEIGHTS))
        # The boxes of padding RoIs are empty, and have no finite targets.
        targets = mi.mtf.cwise(_finite, [targets])
        losses = mi.mtf.reduce_sum(mi.mtf.where(foreground, huber_loss(deltas, targets, _HUBER_DELTA), 0))
        number = mi.mtf.reduce_sum(mi.mtf.cast(foreground, deltas.dtype))
        return {"class_loss": class_loss, "box_loss": mean_box_loss(losses, number)}

    def _mask_loss(self, network, features, rois, masks):
        # Foreground RoIs come first.
        boxes, classes, matches, objects = (
            mi.mtf.slice(x, 0, self._foreground_rois, ROIS_WHOLE)
            for x in (rois.boxes, rois.classes, rois.matches, rois.objects)
        )
        logits = network.masks(features, boxes, classes, is_training=True)
        boxes, classes, matches, objects = (
            mi.ops.scatter_slices(x, ROIS, f"mask_{name}_scatter")
            for name, x in (("boxes", boxes), ("targets", classes), ("matches", matches), ("objects", objects))
        )
        targets = mask_targets(masks, objects, matches, boxes, logits.shape.dims[-1].size)
        losses = mi.ops.sigmoid_cross_entropy(logits, mi.mtf.cast(targets, logits.dtype))
        foreground = mi.mtf.cast(mi.mtf.greater(classes, 0), logits.dtype)
        return mi.ops.masked_mean(losses, mi.mtf.broadcast(foreground, losses.shape))

    def _detect(self, network, features, image, proposals, valid):
        """Returns the boxes, the scores and the classes of the detections, as `non_maximum_suppression` does."""
        rois = mi.mtf.rename_dimension(proposals, PROPOSALS, ROIS_WHOLE)
        logits, deltas = network.classify(features, rois, is_training=False)
        probabilities = mi.ops.softmax(logits, logits.shape.dims[-1])
        scores, deltas = (mi.mtf.slice(x, 1, self.classes, logits.shape.dims[-1].name) for x in (probabilities, deltas))
        boxes = decode(deltas, mi.ops.scatter_slices(rois, ROIS, "roi_boxes_scatter"), _BOX_WEIGHTS)
        boxes = clip_to_image(boxes, *image_sizes(image))
        boxes, scores = (
            mi.ops.gather_slices(x, ROIS, f"detection_{name}_gather")
            for name, x in (("boxes", boxes), ("scores", scores))
        )
        valid = mi.mtf.greater(mi.mtf.rename_dimension(valid, PROPOSALS, ROIS_WHOLE), 0)
        scores = mi.mtf.where(valid, scores, 0)
        limits = (self.nms_threshold, self.score_threshold, self.max_detections)
        return non_maximum_suppression(boxes, scores, *limits)

    def _predict_masks(self, network, features, boxes, classes):
        """Returns the masks of predicted objects: Tensor[batch, detections, mask_height, mask_width]."""
        detections = boxes.shape.dims[1].name
        boxes, classes = (mi.mtf.rename_dimension(x, detections, ROIS_WHOLE) for x in (boxes, classes))
        logits = network.masks(features, boxes, classes + 1, is_training=False)
        masks = mi.ops.gather_slices(mi.mtf.sigmoid(logits), ROIS, "masks_gather")
        masks = mi.mtf.where(mi.mtf.greater_equal(classes, 0), masks, 0)
        return mi.mtf.rename_dimension(masks, ROIS_WHOLE, detections)


def _finite(x):
    return tf.where(tf.math.is_finite(x), x, tf.zeros([], x.dtype))
