"""Scores of segmented volumes, and the frames of reports and of exported networks."""
