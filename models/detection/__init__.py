"""Detectors of objects: RetinaNet (Lin et al. 2017, arXiv:1708.02002)."""

from mtf_imaging.models.detection.anchors import Anchors
from mtf_imaging.models.detection.retinanet import RetinaNet
from mtf_imaging.models.detection.task import ObjectDetection

__all__ = ["Anchors", "ObjectDetection", "RetinaNet"]
