"""Checkpoints of reference ResNets as weights of `ResNetBackbone`: a name table for each format.

A table maps the variable names of a `ResNetBackbone` to the names in a checkpoint. It depends only on the names and
shapes in the checkpoint, which reveal the number of blocks, the stem and the number of filters.
"""

from mtf_imaging.models.backbones.weights.keras_applications import KERAS
from mtf_imaging.models.backbones.weights.structure import Structure
from mtf_imaging.models.backbones.weights.tf_slim import TF_SLIM
from mtf_imaging.models.backbones.weights.tf_vision import TF_VISION
from mtf_imaging.models.backbones.weights.torchvision import TORCHVISION
from mtf_imaging.models.backbones.weights.tpu import TPU

WEIGHT_FORMATS = (TPU, TF_SLIM, TF_VISION, TORCHVISION, KERAS)

__all__ = ["WEIGHT_FORMATS", "Structure"]
