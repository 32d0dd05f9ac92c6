"""The training loop: batches through a program, with checkpoints on the way."""

import logging

import numpy as np
from tqdm import tqdm

from mtf_imaging.errors import TrainingError

_logger = logging.getLogger(__name__)


def train(*, program, batches, num_steps, checkpoints, losses, progress=True):
    """Trains until the program has made `num_steps` steps, beginning with the one that it is at.

    A run that is stopped at any moment, restored and started again repeats an unbroken one exactly: the step says which
    batch is next and what random operations draw, and the checkpoint holds everything else.

    Args:
      program: a `Program` of `training_step`.
      batches: a function of the first step's number -> iterator of dicts: the program's inputs, and "cases", the
        keys of the cases of the batch.
      num_steps: in all, with those of earlier runs.
      checkpoints: `Checkpoints` of the program, restored if the run is to go on.
      losses: a `LossLog`.
      progress: whether to show a bar.

    Returns:
      The measures of the last step, floats by name; none where there was nothing to do.

    Raises:
      TrainingError: a loss is not finite; names the step and the cases. The last checkpoint stays as it is.
    """
    start = int(program.step)
    if start >= num_steps:
        _logger.info("all %d steps are done: nothing to train", num_steps)
        return {}
    losses.begin(start)
    measures = {}
    try:
        with tqdm(
            total=num_steps, initial=start, desc="train", unit="step", disable=not progress, dynamic_ncols=True
        ) as bar:
            for step, batch in zip(range(start, num_steps), batches(start)):
                measures = _step(program, step, batch, losses, checkpoints, bar)
                done = step + 1
                if done % checkpoints.every == 0 or done == num_steps:
                    checkpoints.save()
    finally:
        losses.close()
    return measures


def _step(program, step, batch, losses, checkpoints, bar):
    """One step: returns its measures when they are found to be finite."""
    inputs = {name: value for name, value in batch.items() if name != "cases"}
    cases = batch["cases"]
    values = {name: value.numpy() for name, value in program(**inputs).items()}
    losses.add(step, values, cases)
    if not np.isfinite(values["loss"]):
        raise TrainingError(
            f"step {step}: the loss is {values['loss']} on case{'s' * (len(cases) > 1)} {', '.join(cases)}. "
            f"Training stops; the last checkpoint stays as it is: {checkpoints.last or 'none yet'}. "
            "Fix: a lower learning rate, or look at the images of these cases."
        )
    measures = {name: float(value) for name, value in values.items()}
    shown = ", ".join(
        f"{name} {value:.4f}" if name == "loss" else f"{name} {value:.3f}" for name, value in measures.items()
    )
    bar.update()
    rate = bar.format_dict["rate"] or 0.0  # steps a second, lately; none in the first
    bar.set_postfix_str(f"{shown}, {rate * len(cases):.2f} volumes/s", refresh=False)
    return measures
