"""The operations of TensorFlow graphs on named arrays, a file for each family."""

from mtf_imaging.networks.operations import (
    arithmetic,
    normalization,
    products,
    randomness,
    reductions,
    resampling,
    shapes,
    windows,
)

__all__ = ["arithmetic", "normalization", "products", "randomness", "reductions", "resampling", "shapes", "windows"]
