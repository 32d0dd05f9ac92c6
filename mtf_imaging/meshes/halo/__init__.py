"""Halos: slices widened by the voxels of their neighbors, and the adjoint."""

from mtf_imaging.meshes.halo.widening import Margin, exchanges, narrow, widen

__all__ = ["Margin", "exchanges", "narrow", "widen"]
