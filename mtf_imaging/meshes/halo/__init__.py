"""Halos: widens slices by the voxels of their neighbors. Also has the adjoint."""

from mtf_imaging.meshes.halo.margin import Margin, exchanges
from mtf_imaging.meshes.halo.widening import narrow, widen

__all__ = ["Margin", "exchanges", "narrow", "widen"]
