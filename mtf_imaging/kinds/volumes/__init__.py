"""Volumes: segmentation by a trained network, and scores."""
