"""The arrays of custom data sets."""
