"""Reads images with the boxes and masks of objects, and augments them for training."""
