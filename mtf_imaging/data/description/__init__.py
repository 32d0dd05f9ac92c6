"""Describes a data set: its channels, labels and masks."""
