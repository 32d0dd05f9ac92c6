"""Rearrangements of voxel blocks into channels and back."""
