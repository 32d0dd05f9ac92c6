"""What a training step costs under a layout, beside the same step without one: `python -m benchmarks.partition`."""
