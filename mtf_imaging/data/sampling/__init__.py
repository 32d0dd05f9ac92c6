"""Resamples volumes to a network's grid, and predictions back to the volume."""
