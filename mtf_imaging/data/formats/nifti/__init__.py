"""Reads NIfTI files."""
