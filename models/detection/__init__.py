"""Detectors of objects.

- RetinaNet (Lin et al. 2017, arXiv:1708.02002) predicts boxes.
- Mask R-CNN (He et al. 2017, arXiv:1703.06870) also predicts the mask of each object.
"""

from mtf_imaging.models.detection.anchors import Anchors
from mtf_imaging.models.detection.instance_task import InstanceSegmentation
from mtf_imaging.models.detection.mask_rcnn import MaskRCNN
from mtf_imaging.models.detection.retinanet import RetinaNet
from mtf_imaging.models.detection.task import ObjectDetection

__all__ = ["Anchors", "InstanceSegmentation", "MaskRCNN", "ObjectDetection", "RetinaNet"]
