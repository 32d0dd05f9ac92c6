"""Experiment trackers, which receive the values of a run: MLflow, and Weights & Biases."""
