"""The cost model of a training step: memory, exchange and time."""
