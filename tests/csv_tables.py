"""Reads the tables that commands and runs write."""

import csv


def read_rows(path):
    """Returns the rows of a CSV file as dicts of texts."""
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def read_losses(model_dir):
    """Returns the losses of the steps of a run."""
    return [float(row["loss"]) for row in read_rows(model_dir / "losses.csv")]
