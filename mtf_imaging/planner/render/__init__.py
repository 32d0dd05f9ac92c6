"""The planner's reports as text, JSON and pictures."""
