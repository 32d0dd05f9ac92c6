"""Compares a training step under layouts with the same step in plain TensorFlow: `python -m benchmarks.partition`."""
