"""Checkpoints of a program: whole variables by name, so that any layout can go on from those of any other."""

import logging
from pathlib import Path

import numpy as np
import tensorflow as tf

from mtf_imaging.errors import CheckpointError, ConfigError, TrainingError, reason
from mtf_imaging.program.program import Program
from mtf_imaging.training.checkpoints import files as checkpoint_files
from mtf_imaging.training.checkpoints.contents import check_contents

_logger = logging.getLogger(__name__)
# This process reads and writes all files, on a disk that it sees, wherever the variables are.
_OPTIONS = tf.train.CheckpointOptions(experimental_io_device="/job:localhost/replica:0/task:0/device:CPU:0")


class Checkpoints:
    """The checkpoints of a program in a folder, `ckpt-STEP`.

    They are those of `tf.train.Checkpoint(program=program)`, and `tf.train.latest_checkpoint` finds the last. A run
    that is killed while it writes one, or finds the disk full, leaves the one before as the last. Which there are is
    read from the folder each time, so files that somebody deletes put nothing out of order.

    Args:
      directory: the folder; made where it is missing.
      program: the `Program`.
      every: steps between checkpoints.
      keep: how many of the last stay.

    Raises:
      ConfigError: fewer than 1 of either.
    """

    def __init__(self, directory: str | Path, program: Program, every: int = 100, keep: int = 3) -> None:
        if every < 1 or keep < 1:
            raise ConfigError(
                f"checkpoint_every = {every}, checkpoints_kept = {keep}: each must be at least 1.",
                settings=["checkpoint_every", "checkpoints_kept"],
            )
        self._directory, self._program, self.every, self._keep = Path(directory), program, every, keep
        self._checkpoint = tf.train.Checkpoint(program=program)
        self._saved: int | None = None

    @property
    def last(self) -> str | None:
        """The path of the last checkpoint, or None."""
        return last_checkpoint(self._directory)

    def save_once(self) -> None:
        """Saves the program, unless it has made no step since the last time."""
        if int(self._program.step) != self._saved:
            self.save()

    def save(self) -> None:
        """Saves the program as it is.

        Raises:
          TrainingError: a variable is not finite; nothing is saved.
          CheckpointError: it cannot be written, for instance because the disk is full; the ones before stay.
        """
        step = int(self._program.step)
        for name, variable in self._program.variables.items():
            if variable.dtype.is_floating and not np.isfinite(tf.reduce_sum(tf.abs(variable)).numpy()):
                raise TrainingError(
                    f"variable '{name}' is not finite after step {step}; this state is not saved. "
                    f"The last checkpoint is {self.last or 'none yet'}. Fix: a lower learning rate."
                )
        try:
            # TensorFlow counts saves; a run that was stopped has one more, which its files should not tell.
            self._checkpoint.save_counter.assign(step)
            checkpoint_files.write(self._directory, step, lambda path: self._checkpoint.write(path, _OPTIONS))
        except (tf.errors.OpError, OSError) as error:
            raise CheckpointError(
                f"{self._directory}: the checkpoint of step {step} cannot be written: {reason(error)}. The last one is "
                f"{self.last or 'none yet'}. Fix: what keeps it from being written (space on the disk, a quota, "
                "permissions). Started again, the run goes on from there."
            ) from error
        checkpoint_files.delete_old(self._directory, step, self._keep)
        self._saved = step

    def restore(self) -> int:
        """Restores the last checkpoint that is whole, if there is any, and says so.

        Returns:
          The step to go on with; 0 where there is no checkpoint.

        Raises:
          CheckpointError: there are checkpoints, but all are damaged, or the last whole one is of another network.
        """
        path = restore_last(self._directory, self._checkpoint, self._program, everything=True)
        checkpoint_files.sweep(self._directory)
        if path is None:
            return 0
        step = int(self._program.step)
        _logger.info("goes on from step %d, %s", step, path)
        return step


def load_weights(directory: str | Path, program: Program) -> str:
    """Restores the variables that a program has from the last whole checkpoint; what else is in it is left out.

    Args:
      directory: the folder of checkpoints.
      program: the `Program`.

    Returns:
      The path of the checkpoint.

    Raises:
      CheckpointError: there is none, all are damaged, or it lacks a variable or has it in another shape.
    """
    path = restore_last(Path(directory), tf.train.Checkpoint(program=program), program, everything=False)
    if path is None:
        raise CheckpointError(
            f"{directory}: this folder holds no checkpoint. Fix: train there first, or give another model_dir.",
            settings=["model_dir"],
        )
    return path


def last_checkpoint(directory: str | Path) -> str | None:
    """Returns the path of the last checkpoint in a folder, or None."""
    paths = checkpoint_files.paths(Path(directory))
    return paths[0] if paths else None


def restore_last(directory: Path, checkpoint: tf.train.Checkpoint, program: Program, everything: bool) -> str | None:
    """Restores the last whole checkpoint and returns its path, or None where there is no checkpoint.

    Args:
      directory: the folder.
      checkpoint: a `tf.train.Checkpoint(program=program)`.
      program: the `Program`.
      everything: whether the checkpoint must hold no other variables than the program's.

    Raises:
      CheckpointError: all checkpoints are damaged, or the last intact one belongs to another network.
      OSError: a checkpoint cannot be read.
    """
    checkpoint_files.check_access(directory)
    paths = checkpoint_files.paths(directory)
    for path in paths:
        try:
            reader = tf.train.load_checkpoint(path)
            check_contents(path, reader.get_variable_to_shape_map(), program, everything)
            checkpoint.restore(path, _OPTIONS).expect_partial()
            return path
        except tf.errors.ResourceExhaustedError:  # too little memory is no damage
            raise
        except (tf.errors.OpError, RuntimeError, IndexError) as error:  # TensorFlow has no one error for damage
            # A run that trains meanwhile may have saved the next one and deleted this one.
            if checkpoint_files.paths(directory)[:1] != paths[:1]:
                return restore_last(directory, checkpoint, program, everything)
            _logger.warning("checkpoint %s is damaged, the one before is taken: %s", path, reason(error))
    if paths:
        raise CheckpointError(
            f"{directory}: all checkpoints are damaged ({', '.join(paths)}). Fix: train anew elsewhere."
        )
    return None
