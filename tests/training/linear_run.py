"""Trains the linear task in a process for tests to kill: `python -m tests.training.linear_run FOLDER STEPS`."""

import sys
import time
from pathlib import Path

from mtf_imaging.training.observers.step_table import LossLog
from mtf_imaging.training.optimizers import Adam
from tests.training import linear

STEP_SECONDS = 0.01  # slow enough for a test to kill the process at a chosen step, even on a busy machine


def batches(start_step):
    """Yields the batches of the task slowly."""
    for batch in linear.batches(start_step):
        time.sleep(STEP_SECONDS)
        yield batch


def run(folder, num_steps, every=3):
    """Starts or resumes the run in a folder, as `mtf-imaging train` does."""
    program = linear.program(Adam(0.05), "rows:2", "x:rows", task=linear.Linear(dropout_rate=0.4))
    linear.run(folder, num_steps, program, lambda _: [LossLog(folder / "losses.csv")], batches, every)


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]))
