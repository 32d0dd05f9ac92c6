"""Observers of a run, which receive every step and write tables, events, traces and scores."""
