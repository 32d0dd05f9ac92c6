"""The cost model of a training step: memory, exchanges and time."""
