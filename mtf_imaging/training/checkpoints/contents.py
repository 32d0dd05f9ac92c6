"""The variables of a checkpoint: their keys, their comparison with a network, and copies to write them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

from mtf_imaging.engine.meshes.devices import host_device
from mtf_imaging.engine.program.program import Program
from mtf_imaging.errors import CheckpointError
from mtf_imaging.training.checkpoints.slots import SlotChanges

# The key of a variable in tf.train.Checkpoint(program=...), which escapes "/" as ".S" and "." as "..".
_VARIABLE = re.compile(r"program/_masters/_named/(.+)/\.ATTRIBUTES/VARIABLE_VALUE$")
_SHOWN = 4


class Contents(NamedTuple):
    """The variables of a checkpoint, by their keys, as TensorFlow's checkpoint reader returns them.

    Attributes:
      shapes: the shape of each variable.
      dtypes: the dtype of each variable.
    """

    shapes: Mapping[str, Sequence[int]]
    dtypes: Mapping[str, tf.DType]

    def changes(self, path: str, program: Program, everything: bool) -> SlotChanges:
        """Compares the variables of a checkpoint with the variables of a program.

        TensorFlow does not cast variables, so their dtypes must be equal as well.

        Args:
          path: path of the checkpoint.
          program: the `Program`.
          everything: whether to refuse a checkpoint with variables that the program lacks.

        Returns:
          The slots that differ because other weights are frozen or averaged; the caller applies these changes.

        Raises:
          CheckpointError: the variables differ; the message names the first few that do.
        """
        keys = variable_keys(self.shapes)
        saved = {name: _described(self.dtypes[key], self.shapes[key]) for name, key in keys.items()}
        wanted = {name: _described(own.dtype, own.shape.as_list()) for name, own in program.variables.items()}
        changes = SlotChanges.between(saved, wanted)
        faults = [
            f"'{name}' is {saved.get(name, 'missing')} in the checkpoint, but {own} in the network"
            for name, own in wanted.items()
            if own != saved.get(name) and name not in changes.begun
        ]
        if everything:
            extra = sorted({*saved} - {*wanted, *changes.dropped})
            faults += [f"'{name}' {saved[name]} is only in the checkpoint" for name in extra]
        if faults:
            more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
            raise CheckpointError(
                f"{path}: this checkpoint belongs to another network or optimizer: {'; '.join(faults[:_SHOWN])}{more}. "
                "Fix: use the task, the optimizer and the dtype that the checkpoint was trained with, or another "
                "model_dir.",
                settings=("task", "optimizer", "dtype", "model_dir"),
            )
        return changes


def _described(dtype: tf.DType, shape: Sequence[int]) -> str:
    return f"{dtype.name} {list(shape)}"


def variable_keys(keys: Iterable[str]) -> dict[str, str]:
    """Returns the checkpoint keys of a program's variables, {name: key}.

    Args:
      keys: all keys of the checkpoint.
    """
    return {_name(match[1]): key for key in keys if (match := _VARIABLE.match(key))}


def _name(escaped: str) -> str:
    return re.sub(r"\.S|\.\.", lambda match: "/" if match[0] == ".S" else ".", escaped)


class Snapshot(tf.Module):
    """A copy of a program's variables in host memory, with the same names in a checkpoint.

    Args:
      variables: the values of the variables, by name.
      step: the number of steps.
    """

    def __init__(self, variables: Mapping[str, object], step: object) -> None:
        super().__init__()
        with tf.device(host_device()):
            # These names are parts of the keys in checkpoints; see `Program` and `Variables`.
            self._masters = tf.Module()
            self._masters._named = {name: tf.Variable(value) for name, value in variables.items()}
            self._masters.step = self.step = tf.Variable(step, dtype=tf.int64)
