"""Checkpoints of reference detectors as weights of `RetinaNet` and `MaskRCNN`: a name table for each format."""

from mtf_imaging.models.detection.weights.tf_vision_mask_rcnn import TF_VISION_MASK_RCNN
from mtf_imaging.models.detection.weights.tf_vision_retinanet import TF_VISION_RETINANET

WEIGHT_FORMATS = (TF_VISION_RETINANET, TF_VISION_MASK_RCNN)

__all__ = ["WEIGHT_FORMATS"]
