"""Reports of the planner: text, JSON and pictures."""
