"""Reads images and the annotations of their objects."""
