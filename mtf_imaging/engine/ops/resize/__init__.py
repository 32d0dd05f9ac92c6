"""Resizing by interpolation, and padding."""

from mtf_imaging.engine.ops.resize.padding import pad
from mtf_imaging.engine.ops.resize.resizing import resize1d, resize2d, resize3d

__all__ = ["pad", "resize1d", "resize2d", "resize3d"]
