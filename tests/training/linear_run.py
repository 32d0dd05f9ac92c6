"""Trains the linear task in a process for tests to kill: `python -m tests.training.linear_run FOLDER STEPS`."""

import sys
import time
from pathlib import Path

from mtf_imaging.training.checkpoints.checkpoints import Checkpoints
from mtf_imaging.training.loop import train
from mtf_imaging.training.observers.loss_log import LossLog
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
    checkpoints = Checkpoints(folder, program, every=every)
    checkpoints.restore()
    train(
        program=program,
        batches=batches,
        num_steps=num_steps,
        checkpoints=checkpoints,
        observers=[LossLog(folder / "losses.csv")],
        progress=False,
    )


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]))
