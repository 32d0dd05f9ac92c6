"""Reads photos with label images, and augments them for training."""
