"""Compares how well our jobs and a plain Keras program learn in about equal CPU time."""
