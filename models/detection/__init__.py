"""Detectors of objects.

- RetinaNet (Lin et al. 2017, arXiv:1708.02002) predicts boxes.
- Mask R-CNN (He et al. 2017, arXiv:1703.06870) also predicts the mask of each object.

docs/concepts/mask_rcnn.md follows one image through a training step of Mask R-CNN and lists the files of this folder.
docs/reference/differences.md compares both with other implementations.
"""

from mtf_imaging.models.detection.anchors import Anchors
from mtf_imaging.models.detection.instance_task import InstanceSegmentation
from mtf_imaging.models.detection.mask_rcnn import MaskRCNN
from mtf_imaging.models.detection.retinanet import RetinaNet
from mtf_imaging.models.detection.task import ObjectDetection

__all__ = ["Anchors", "InstanceSegmentation", "MaskRCNN", "ObjectDetection", "RetinaNet"]
