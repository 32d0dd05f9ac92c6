"""Checkpoints of reference ResNets as weights of `ResNetBackbone`: a name table for each format.

A table maps the names of the variables of a `ResNetBackbone` to those of a checkpoint. It follows from the names and
shapes of the checkpoint alone, which show the number of blocks, the stem and the number of filters.
"""

from mtf_imaging.models.backbones.weights.keras_applications import KerasApplications
from mtf_imaging.models.backbones.weights.structure import Conversion, NameTable, Structure
from mtf_imaging.models.backbones.weights.tf_slim import TFSlim
from mtf_imaging.models.backbones.weights.tf_vision import TFVision
from mtf_imaging.models.backbones.weights.torchvision import TorchVision
from mtf_imaging.models.backbones.weights.tpu import TPU

WEIGHT_FORMATS = (TPU(), TFSlim(), TFVision(), TorchVision(), KerasApplications())

__all__ = [
    "TPU",
    "WEIGHT_FORMATS",
    "Conversion",
    "KerasApplications",
    "NameTable",
    "Structure",
    "TFSlim",
    "TFVision",
    "TorchVision",
]
