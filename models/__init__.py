"""Networks and their tasks, built on the public API only."""
