"""Segmentation of whole volumes by a trained network."""
