"""The scores of segmented photos."""
