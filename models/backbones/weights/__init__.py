"""Checkpoints of reference ResNets as weights of `ResNetBackbone`: a name table for each format.

A table maps the variable names of a `ResNetBackbone` to the names in a checkpoint. It depends only on the names and
shapes in the checkpoint, which reveal the number of blocks, the stem and the number of filters.
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
