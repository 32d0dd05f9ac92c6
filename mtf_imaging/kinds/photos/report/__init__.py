"""The report of photos."""
