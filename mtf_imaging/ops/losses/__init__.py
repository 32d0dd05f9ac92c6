"""Losses over split dimensions."""

from mtf_imaging.ops.losses.cross_entropy import softmax, sparse_softmax_cross_entropy, weighted_cross_entropy
from mtf_imaging.ops.losses.dice import adaptive_dice_loss, dice_loss

__all__ = [
    "adaptive_dice_loss",
    "dice_loss",
    "softmax",
    "sparse_softmax_cross_entropy",
    "weighted_cross_entropy",
]
