"""The report of segmented cases."""
