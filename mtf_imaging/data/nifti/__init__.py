"""Reads NIfTI files as Hounsfield units or labels with their geometry, and writes segmentations."""
