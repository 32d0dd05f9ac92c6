"""Checkpoints of a program: whole variables by name, so that a run can resume under any layout."""

import enum
import logging
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.meshes import group as groups
from mtf_imaging.engine.program.program import Program
from mtf_imaging.errors import CheckpointError, TrainingError, reason
from mtf_imaging.files.literal import literal_prefix
from mtf_imaging.files.run_folder import BEST
from mtf_imaging.training.averages import averages_in, use_averages
from mtf_imaging.training.checkpoints import files as checkpoint_files
from mtf_imaging.training.checkpoints.contents import Contents, Snapshot, variable_keys

_logger = logging.getLogger(__name__)
_TRIES = 3


class Checkpoints:
    """The checkpoints of a program in a folder, named `ckpt-STEP`.

    The files are the same as from `tf.train.Checkpoint(program=program)`, and `tf.train.latest_checkpoint` returns the
    last one. If a run is killed while it writes a checkpoint, or if the disk is full, the previous checkpoint remains
    the last. The class lists the folder each time, so it tolerates files that a user deletes.

    If several processes have joined, all of them call the same methods. Process 0 writes; all processes restore the
    checkpoint that process 0 chooses, from a file system that they share.

    Args:
      directory: the folder, which is created if it is missing.
      program: the `Program`.
      every: number of steps between checkpoints.
      keep: number of most recent checkpoints to keep.
      in_background: whether to write checkpoints while the next steps run, which takes host memory for a copy of all
        variables. At most one checkpoint is written at a time; call `wait` at the end.
    """

    def __init__(
        self, directory: str | Path, program: Program, every: int = 100, keep: int = 3, in_background: bool = False
    ) -> None:
        self._directory, self.program, self.every, self._keep = Path(directory), program, every, keep
        self._checkpoint = tf.train.Checkpoint(program=program)
        self._background = ThreadPoolExecutor(1, "checkpoint") if in_background else None
        self._pending: Future | None = None  # the checkpoint in the background
        self._group = groups.current()
        self._saved: int | None = None

    @property
    def last(self) -> str | None:
        """The path of the last checkpoint; None if there is no checkpoint."""
        return last_checkpoint(self._directory)

    def save_once(self) -> None:
        """Saves the program, unless it has not made a step since it was last saved."""
        if int(self.program.step) != self._saved:
            self.save()

    def save(self) -> None:
        """Saves the program.

        Raises:
          TrainingError: a variable is not finite; nothing is saved.
          CheckpointError: the checkpoint cannot be written, for instance because the disk is full. Earlier checkpoints
            remain. A checkpoint in the background raises the error in the next call, or in `wait`.
        """
        self._group.first(self.save_alone)
        self._saved = int(self.program.step)

    def wait(self) -> None:
        """Waits until a checkpoint in the background is complete.

        Raises:
          CheckpointError: it cannot be written.
        """
        if self._background is not None:
            self._group.first(self._wait)

    def close(self) -> None:
        """Waits for a checkpoint in the background after the run has failed; only logs an error."""
        try:
            self._wait()
        except CheckpointError as error:
            _logger.error("%s", error)

    def save_alone(self) -> None:
        """Saves the program from this process; other processes do not take part."""
        step = int(self.program.step)
        self._wait()
        for name, variable in self.program.variables.items():
            if variable.dtype.is_floating and not np.isfinite(tf.reduce_sum(tf.abs(variable)).numpy()):
                raise TrainingError(
                    f"variable '{name}' is not finite after step {step}; this state is not saved. "
                    f"Last checkpoint: {self.last or 'none'}. Fix: lower the learning rate."
                )
        if self._background is None:
            self._write(self._checkpoint, step)
        else:
            copy = tf.train.Checkpoint(program=Snapshot(self.program.variables, self.program.step))
            self._pending = self._background.submit(self._write, copy, step)

    def _wait(self) -> None:
        """Waits for the checkpoint in the background; raises its error once."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def _write(self, checkpoint: tf.train.Checkpoint, step: int) -> None:
        try:
            # TensorFlow counts the saves of a run. Store the step instead, so that interrupted and uninterrupted runs
            # write the same files.
            checkpoint.save_counter.assign(step)
            checkpoint_files.write(self._directory, step, checkpoint.write)
        except (tf.errors.OpError, OSError) as error:
            raise CheckpointError(
                f"{self._directory}: the checkpoint of step {step} cannot be written: {reason(error)}. "
                f"Last checkpoint: {self.last or 'none'}. Fix: free disk space, raise the quota or correct the "
                "permissions, then start the run again to resume it."
            ) from error
        checkpoint_files.delete_old(self._directory, step, self._keep)

    def restore(self) -> int:
        """Restores the last intact checkpoint, if there is one, and logs its step.

        Returns:
          The step to resume with; 0 if there is no checkpoint.

        Raises:
          CheckpointError: all checkpoints are damaged, or the last intact one belongs to another network.
        """
        self._group.first(lambda: checkpoint_files.sweep(self._directory))
        path = restore_last(self._directory, self._checkpoint, self.program, Restored.EVERYTHING)
        if path is None:
            return 0
        step = int(self.program.step)
        _logger.info("resuming from step %d, %s", step, path)
        return step


class Restored(enum.Enum):
    """The variables to restore: all variables, the weights, or the averages of the weights if there are any."""

    EVERYTHING = enum.auto()
    WEIGHTS = enum.auto()
    AVERAGES = enum.auto()


def load_weights(directory: str | Path, program: Program, averages: bool = True) -> str:
    """Restores the variables of a program from the last checkpoint, and ignores its other variables.

    Args:
      directory: the folder of checkpoints.
      program: the `Program`.
      averages: whether to use the averages of the weights in the checkpoint.

    Returns:
      The path of the checkpoint.

    Raises:
      CheckpointError: there is no checkpoint, or a variable of the program is missing from the last one or has another
        shape or dtype there.
      CheckpointError: the last checkpoint is damaged. Only training falls back to an older one.
    """
    what = Restored.AVERAGES if averages else Restored.WEIGHTS
    path = restore_last(Path(directory), tf.train.Checkpoint(program=program), program, what)
    if path is None:
        raise CheckpointError(
            f"{directory}: this folder holds no checkpoint. Fix: train there first, or give another model_dir.",
            settings=["model_dir"],
        )
    return path


def last_checkpoint(directory: str | Path) -> str | None:
    """Returns the path of the last checkpoint in a folder; None if there is no checkpoint."""
    paths = checkpoint_files.paths(Path(directory))
    return paths[0] if paths else None


def restore_last(directory: Path, checkpoint: tf.train.Checkpoint, program: Program, what: Restored) -> str | None:
    """Restores the last checkpoint and returns its path; returns None if there is no checkpoint.

    If it is damaged, training resumes from the last intact one. Results never come from an older checkpoint than asked
    for. If several processes have joined, process 0 chooses the checkpoint, and all processes restore it.

    Args:
      directory: the folder.
      checkpoint: a `tf.train.Checkpoint(program=program)`.
      program: the `Program`.
      what: the variables to restore.

    Raises:
      CheckpointError: all checkpoints are damaged, the restored one belongs to another network, or a process cannot
        read it.
      CheckpointError: the last checkpoint is damaged, and `what` is not `Restored.EVERYTHING`.
      OSError: a checkpoint cannot be read.
    """
    group = groups.current()
    outcomes: list[str] = []
    for _ in range(_TRIES):
        path = group.first(lambda: _restore_last(directory, checkpoint, program, what))
        if path is None:
            return None
        outcomes = group.gather("" if group.is_first else _restore_copy(path, checkpoint, program, what))
        if not any(outcomes):
            return path
        # A run that is training may have saved the next checkpoint and deleted this one in the meantime.
    number, why = next((number, why) for number, why in enumerate(outcomes) if why)
    raise CheckpointError(
        f"{path}: {group.name(number)} cannot restore this checkpoint of process 0: {why}. "
        "Fix: put model_dir on a file system that all processes share.",
        settings=["model_dir"],
    )


def _restore_copy(path: str, checkpoint: tf.train.Checkpoint, program: Program, what: Restored) -> str:
    """Restores the checkpoint that process 0 has restored; returns the reason if that fails, else an empty string."""
    try:
        _restore(path, checkpoint, program, what)
        return ""
    except (*checkpoint_files.DAMAGED, CheckpointError, OSError) as error:
        return reason(error)


def _restore_last(directory: Path, checkpoint: tf.train.Checkpoint, program: Program, what: Restored) -> str | None:
    """Does the same as `restore_last` in one process."""
    checkpoint_files.check_access(directory)
    paths = checkpoint_files.paths(directory)
    for path in paths:
        try:
            _restore(path, checkpoint, program, what)
            return path
        except tf.errors.ResourceExhaustedError:  # out of memory, not damaged
            raise
        except checkpoint_files.DAMAGED as error:
            # A run that is training may have saved the next checkpoint and deleted this one in the meantime.
            if checkpoint_files.paths(directory)[:1] != paths[:1]:
                return _restore_last(directory, checkpoint, program, what)
            older = paths[paths.index(path) + 1 :]
            if what is not Restored.EVERYTHING or not older:
                other = "last" if directory.name == BEST else "best"
                raise CheckpointError(
                    f"{path}: this checkpoint is damaged: {reason(error)}. Older ones: {', '.join(older) or 'none'}. "
                    f"Fix: train on, which resumes from an older one; use the {other} checkpoint, with checkpoint = "
                    f"'{other}'; or train again in another model_dir.",
                    ["checkpoint", "model_dir"],
                ) from error
            _logger.warning("checkpoint %s is damaged; using the previous one: %s", path, reason(error))
    return None


def _restore(path: str, checkpoint: tf.train.Checkpoint, program: Program, what: Restored) -> None:
    """Restores a checkpoint, after checking that it belongs to the program."""
    with literal_prefix(path) as prefix:
        reader = tf.train.load_checkpoint(prefix)
        shapes = reader.get_variable_to_shape_map()
        saved = Contents(shapes, reader.get_variable_to_dtype_map())
        changes = saved.changes(path, program, everything=what is Restored.EVERYTHING)
        checkpoint.restore(prefix).expect_partial()
        if what is Restored.EVERYTHING:
            changes.apply(program.variables)
        elif what is Restored.AVERAGES and int(program.step) > 0:  # before the first step, averages have no value
            keys, variables = variable_keys(shapes), program.variables
            averages = {name: average for name, average in averages_in(keys).items() if name in variables}
            if averages:
                _logger.info("using the averages of %d weights", len(averages))
            use_averages(variables, {name: reader.get_tensor(keys[average]) for name, average in averages.items()})
