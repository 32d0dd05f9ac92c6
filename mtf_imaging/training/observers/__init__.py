"""Observers of a run: they receive every step and write tables, events, traces and scores."""
