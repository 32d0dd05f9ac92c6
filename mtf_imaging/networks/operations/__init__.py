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
from mtf_imaging.networks.operations.registry import CONSTANT_ONLY, OPERATIONS, Call

__all__ = [
    "CONSTANT_ONLY",
    "OPERATIONS",
    "Call",
    "arithmetic",
    "normalization",
    "products",
    "randomness",
    "reductions",
    "resampling",
    "shapes",
    "windows",
]
