"""A residual network for image classification, and generated images to train it.

It also exports the names of `mtf_imaging.models.backbones`, which gin files bind as `resnet.Xception` and so on.
"""

from mtf_imaging.models.backbones import WEIGHT_FORMATS, Backbone, ResNetBackbone, Xception
from mtf_imaging.models.resnet.generated import GeneratedImages
from mtf_imaging.models.resnet.network import ResNet
from mtf_imaging.models.resnet.task import Classification

__all__ = ["WEIGHT_FORMATS", "Backbone", "Classification", "GeneratedImages", "ResNet", "ResNetBackbone", "Xception"]
