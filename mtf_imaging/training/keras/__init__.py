"""Weights of Keras models, which the caller builds or loads; this package does not import Keras."""

from mtf_imaging.training.keras.importing import import_weights

__all__ = ["import_weights"]
