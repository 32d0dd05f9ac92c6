"""Reads and writes OME-Zarr images: versions 0.4 (Zarr format 2) and 0.5 (Zarr format 3)."""
