"""Flags and gin files: read, checked and bound."""
