"""Measures how commands react to bad inputs, kills, full disks and unusual environments."""
