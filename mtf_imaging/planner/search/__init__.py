"""Search for the fastest layout and for the largest cube."""
