"""Measures what commands do with bad inputs, kills, full disks and unusual environments."""
