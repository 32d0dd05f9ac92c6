"""Halo exchange: `widen` adds the voxels of neighbors to slices, and `narrow` is the adjoint of `widen`."""

from mtf_imaging.meshes.halo.margin import Margin, exchanges
from mtf_imaging.meshes.halo.widening import narrow, widen

__all__ = ["Margin", "exchanges", "narrow", "widen"]
