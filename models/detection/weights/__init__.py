"""Checkpoints of reference detectors as weights of `RetinaNet` and `MaskRCNN`: a name table for each format."""

from mtf_imaging.models.detection.weights.tf_vision_mask_rcnn import TFVisionMaskRCNN
from mtf_imaging.models.detection.weights.tf_vision_retinanet import TFVisionRetinaNet

WEIGHT_FORMATS = (TFVisionRetinaNet(), TFVisionMaskRCNN())

__all__ = ["WEIGHT_FORMATS", "TFVisionMaskRCNN", "TFVisionRetinaNet"]
