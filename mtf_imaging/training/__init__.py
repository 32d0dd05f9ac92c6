"""The training loop, and what it is made of. It knows no model and no dataset: see `task.py` for what it needs."""
