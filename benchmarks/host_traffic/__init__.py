"""Measures the bytes between hosts in a training step, and compares them with `mtf-imaging explain --num_hosts`."""
