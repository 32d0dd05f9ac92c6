"""Optimizers and learning-rate schedules. Derive from `Optimizer` to write your own."""

from mtf_imaging.training.optimizers.adafactor import Adafactor
from mtf_imaging.training.optimizers.adam import Adam
from mtf_imaging.training.optimizers.optimizer import Optimizer
from mtf_imaging.training.optimizers.schedules import (
    CosineDecay,
    ExponentialDecay,
    MilestoneDecay,
    PolyDecay,
    StepDecay,
    WarmUp,
)
from mtf_imaging.training.optimizers.sgd import SGD

__all__ = [
    "SGD",
    "Adafactor",
    "Adam",
    "CosineDecay",
    "ExponentialDecay",
    "MilestoneDecay",
    "Optimizer",
    "PolyDecay",
    "StepDecay",
    "WarmUp",
]
