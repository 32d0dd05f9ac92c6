"""Pairs of a segmentation and its reference, found in folders and scored."""
