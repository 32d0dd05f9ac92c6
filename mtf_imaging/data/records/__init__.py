"""Converts cases to records, and reads records as training batches."""
