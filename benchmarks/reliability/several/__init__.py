"""Faults of several processes that train together: drawn signals, and peers that differ."""
