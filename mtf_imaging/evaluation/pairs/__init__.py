"""Pairing and scoring of segmentations and references in two folders."""
