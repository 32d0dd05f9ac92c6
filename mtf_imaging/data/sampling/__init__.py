"""Resamples volumes to the grid of a network, and predictions back to the volume."""
