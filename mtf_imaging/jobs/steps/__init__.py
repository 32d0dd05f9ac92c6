"""The training step of a job: built for each grid of its data, or examined for its costs."""
