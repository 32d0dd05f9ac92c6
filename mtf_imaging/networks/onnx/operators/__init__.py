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

__all__ = ["elementwise", "normalization", "products", "reductions", "resizing", "shapes", "shuffling", "windows"]
