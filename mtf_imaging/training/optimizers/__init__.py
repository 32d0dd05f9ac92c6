"""Optimizers and learning-rate schedules. Derive from `Optimizer` to write your own."""

from mtf_imaging.training.optimizers.adafactor import Adafactor
from mtf_imaging.training.optimizers.optimizers import SGD, Adam, Optimizer

__all__ = ["SGD", "Adafactor", "Adam", "Optimizer"]
