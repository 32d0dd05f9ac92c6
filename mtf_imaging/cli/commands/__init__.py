"""The commands of `mtf-imaging`, one module per command."""
