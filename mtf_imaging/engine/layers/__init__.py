"""Layers that own their weights, so that a network is a plain function of named tensors.

    import mtf_imaging as mi

    def network(image):
        x = mi.layers.Conv(8, activation="relu")(image)
        return mi.layers.Conv(2, kernel_size=1)(x)

The channel dimension is called `channels` before and after every layer, and the other dimensions keep their names. A
layer has the same values and gradients under every layout.
"""

from mtf_imaging.engine.layers.channels import concat
from mtf_imaging.engine.layers.conv import Conv
from mtf_imaging.engine.layers.conv_transpose import ConvTranspose
from mtf_imaging.engine.layers.dense import Dense
from mtf_imaging.engine.layers.layer import Layer, scope
from mtf_imaging.engine.layers.norm import Norm
from mtf_imaging.engine.layers.residual import Residual
from mtf_imaging.engine.layers.separable_conv import SeparableConv
from mtf_imaging.engine.layers.up_sample import UpSample
from mtf_imaging.engine.layers.weights import variable
from mtf_imaging.engine.ops.precision import widen
from mtf_imaging.engine.spellings import accept_all_spellings

__all__ = [
    "Conv",
    "ConvTranspose",
    "Dense",
    "Layer",
    "Norm",
    "Residual",
    "SeparableConv",
    "UpSample",
    "concat",
    "scope",
    "variable",
    "widen",
]

_public = {name: globals()[name] for name in __all__}
accept_all_spellings(_public)
globals().update(_public)
