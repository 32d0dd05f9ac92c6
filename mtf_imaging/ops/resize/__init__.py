"""Resizing by interpolation."""

from mtf_imaging.ops.resize.resizing import resize2d, resize3d

__all__ = ["resize2d", "resize3d"]
