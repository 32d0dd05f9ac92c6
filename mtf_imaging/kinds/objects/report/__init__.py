"""The report of images with objects."""
