"""Segmentation and scoring of photos: color images of any size with a class for each pixel."""
