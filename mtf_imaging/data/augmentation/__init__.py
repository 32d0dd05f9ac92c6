"""What may be changed about a training sample, a concept a file; `recipe.py` puts them together."""

from mtf_imaging.data.augmentation.recipe import Augmentation

__all__ = ["Augmentation"]
