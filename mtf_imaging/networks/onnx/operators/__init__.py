"""The ONNX operators, a file for each family."""

from mtf_imaging.networks.onnx.operators import (
    elementwise,
    normalization,
    products,
    reductions,
    resizing,
    shapes,
    shuffling,
    windows,
)
from mtf_imaging.networks.onnx.registry import OPERATORS

__all__ = [
    "OPERATORS",
    "elementwise",
    "normalization",
    "products",
    "reductions",
    "resizing",
    "shapes",
    "shuffling",
    "windows",
]
