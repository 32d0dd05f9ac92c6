"""Utilities for files and processes: atomic writes, one writer per folder, and worker processes. Pure Python."""
