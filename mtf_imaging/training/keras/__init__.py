"""Weights of Keras models. Keras itself is not imported: the functions take models that the caller has built or loaded."""

from mtf_imaging.training.keras.importing import import_weights

__all__ = ["import_weights"]
