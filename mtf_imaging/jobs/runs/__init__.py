"""The folder of a training run, and the experiment trackers that follow it."""
