"""A function over named tensors, checked, lowered and run under a layout."""

from mtf_imaging.program.program import Program

__all__ = ["Program"]
