"""Sampling: which voxels of a volume the network sees, and the way back."""
