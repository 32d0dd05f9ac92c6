"""Augments training samples; each file implements one kind of change, and `recipe.py` combines them."""

from mtf_imaging.data.augmentation.recipe import Augmentation

__all__ = ["Augmentation"]
