"""Checkpoints of a run: written whole, checked before they are restored, the best one kept."""

from mtf_imaging.training.checkpoints.checkpoints import Checkpoints

__all__ = ["Checkpoints"]
