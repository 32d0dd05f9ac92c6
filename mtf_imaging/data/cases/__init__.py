"""Folders of cases: each CT with its mask."""
