"""The search for the best layout, and for the largest cube."""
