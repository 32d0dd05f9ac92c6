"""What a network segments: volumes or photos. `opening.open_subject` chooses one by the facts of a run."""
