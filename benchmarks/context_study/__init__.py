"""Compares whole volumes, patches and whole volumes at half the resolution, at equal steps and at equal CPU time."""
