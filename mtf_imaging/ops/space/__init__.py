"""Rearrangements of blocks of voxels to channels and back."""
