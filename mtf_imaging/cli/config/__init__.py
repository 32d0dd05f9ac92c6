"""Reads, checks and binds flags and gin files."""
