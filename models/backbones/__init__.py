"""Backbones that classifiers, segmentation networks and detectors share.

- Residual networks (He et al. 2016, "Deep Residual Learning for Image Recognition") and Xception-65 (Chollet 2017).
- The variable names of published residual networks in their checkpoints (`WEIGHT_FORMATS`).
"""

from mtf_imaging.models.backbones.backbone import Backbone
from mtf_imaging.models.backbones.residual import ResNetBackbone
from mtf_imaging.models.backbones.weights import WEIGHT_FORMATS
from mtf_imaging.models.backbones.xception import Xception

__all__ = ["WEIGHT_FORMATS", "Backbone", "ResNetBackbone", "Xception"]
