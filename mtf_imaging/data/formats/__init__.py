"""Reads and writes the files of each image format."""
