"""Finds and divides the cases of a folder; a case is one CT with its mask."""
