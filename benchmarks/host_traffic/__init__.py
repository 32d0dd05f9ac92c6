"""Measures the bytes that hosts exchange in a training step, and compares them with `mtf-imaging explain --num_hosts`."""
