"""Detectors of objects: RetinaNet (Lin et al. 2017, arXiv:1708.02002)."""

from mtf_imaging.models.detection.anchors import Anchors
from mtf_imaging.models.detection.retinanet import RetinaNet

__all__ = ["Anchors", "RetinaNet"]
