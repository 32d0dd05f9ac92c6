"""A residual network for image classification (He et al. 2016, "Deep Residual Learning for Image Recognition")."""

from mtf_imaging.models.resnet.generated import GeneratedImages
from mtf_imaging.models.resnet.network import ResNet
from mtf_imaging.models.resnet.task import Classification

__all__ = ["Classification", "GeneratedImages", "ResNet"]
