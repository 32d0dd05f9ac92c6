"""Finds the images of a folder, by the names of files or by their content."""
