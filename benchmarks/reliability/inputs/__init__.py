"""The table of bad inputs, with one module per kind."""
