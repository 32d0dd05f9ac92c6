"""Losses over split dimensions."""

from mtf_imaging.engine.ops.losses.cross_entropy import softmax, sparse_softmax_cross_entropy, weighted_cross_entropy
from mtf_imaging.engine.ops.losses.dice import adaptive_dice_loss, dice_loss
from mtf_imaging.engine.ops.losses.labels import expect_labels
from mtf_imaging.engine.ops.losses.masked_mean import masked_mean
from mtf_imaging.engine.ops.losses.sigmoid import sigmoid_cross_entropy

__all__ = [
    "adaptive_dice_loss",
    "dice_loss",
    "expect_labels",
    "masked_mean",
    "sigmoid_cross_entropy",
    "softmax",
    "sparse_softmax_cross_entropy",
    "weighted_cross_entropy",
]
