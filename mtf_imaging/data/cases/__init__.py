"""Finds the cases of a folder, and holds some of them out."""
