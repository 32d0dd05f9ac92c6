"""Halo exchange: `widen` adds the voxels of neighbors to slices, and `narrow` is the adjoint of `widen`."""

from mtf_imaging.engine.meshes.halo.margin import Margin
from mtf_imaging.engine.meshes.halo.planning import exchanges, narrow, widen

__all__ = ["Margin", "exchanges", "narrow", "widen"]
