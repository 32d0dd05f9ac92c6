"""A residual network (He et al. 2016, "Deep Residual Learning for Image Recognition") that tells classes of images."""

from mtf_imaging.models.resnet.generated import GeneratedImages
from mtf_imaging.models.resnet.network import ResNet
from mtf_imaging.models.resnet.task import Classification

__all__ = ["Classification", "GeneratedImages", "ResNet"]
