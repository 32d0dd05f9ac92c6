"""Segmentations and detections, their scores and reports, and exported networks."""
