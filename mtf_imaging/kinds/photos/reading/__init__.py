"""Reads photos and label images."""
