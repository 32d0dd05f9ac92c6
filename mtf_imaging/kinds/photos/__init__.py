"""Photos with label images."""
