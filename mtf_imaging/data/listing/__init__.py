"""Finds the images of a folder by file name or content."""
