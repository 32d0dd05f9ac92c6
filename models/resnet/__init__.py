"""Backbones for networks on images, and an image classifier.

- Residual networks (He et al. 2016, "Deep Residual Learning for Image Recognition") and Xception-65 (Chollet 2017) as
  backbones of segmentation networks and detectors.
- The names of published residual networks in their checkpoints (`WEIGHT_FORMATS`).
- A residual network for image classification, and generated images to train it.
"""

from mtf_imaging.models.resnet.backbone import Backbone
from mtf_imaging.models.resnet.generated import GeneratedImages
from mtf_imaging.models.resnet.network import ResNet
from mtf_imaging.models.resnet.residual import ResNetBackbone
from mtf_imaging.models.resnet.task import Classification
from mtf_imaging.models.resnet.weights import WEIGHT_FORMATS
from mtf_imaging.models.resnet.xception import Xception

__all__ = ["WEIGHT_FORMATS", "Backbone", "Classification", "GeneratedImages", "ResNet", "ResNetBackbone", "Xception"]
