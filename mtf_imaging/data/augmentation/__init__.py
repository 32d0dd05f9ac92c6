"""Augmentation of training samples: one kind of change a file, combined in `recipe.py`."""

from mtf_imaging.data.augmentation.recipe import Augmentation

__all__ = ["Augmentation"]
