"""Finds the images in a folder by file name or content."""
