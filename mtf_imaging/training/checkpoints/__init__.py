"""Checkpoints of a run: atomic writes, checks before a restore, and the best checkpoint."""

from mtf_imaging.training.checkpoints.checkpoints import Checkpoints

__all__ = ["Checkpoints"]
