"""Finds the cases in a folder, and holds some of them out."""
