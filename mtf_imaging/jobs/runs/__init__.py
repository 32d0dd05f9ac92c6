"""The runs of a job: their folders, their networks, and the observers and trackers that follow their training."""
