"""Checks that a checkpoint belongs to a network before it is restored."""

import re
from collections.abc import Iterable, Mapping, Sequence

import tensorflow as tf

from mtf_imaging.engine.program.program import Program
from mtf_imaging.errors import CheckpointError
from mtf_imaging.training.checkpoints.slots import SlotChanges

# The key of a variable in tf.train.Checkpoint(program=...), which escapes "/" as ".S" and "." as "..".
_VARIABLE = re.compile(r"program/_masters/_named/(.+)/\.ATTRIBUTES/VARIABLE_VALUE$")
_SHOWN = 4
_FIX = "Fix: use the task and the optimizer that the checkpoint was trained with, or another model_dir."
_SETTINGS = ("task", "optimizer", "model_dir")


def check_contents(path: str, shapes: Mapping[str, Sequence[int]], program: Program, everything: bool) -> SlotChanges:
    """Compares the variables of a checkpoint with the variables of a program.

    Args:
      path: path of the checkpoint.
      shapes: the shape of each variable by its key, as returned by TensorFlow's checkpoint reader.
      program: the `Program`.
      everything: whether to refuse a checkpoint with variables that the program lacks.

    Returns:
      The slots that differ because other weights are frozen or averaged; the caller applies these changes.

    Raises:
      CheckpointError: the variables differ; the message names the first few that do.
    """
    saved = {name: list(shapes[key]) for name, key in variable_keys(shapes).items()}
    wanted = {name: variable.shape.as_list() for name, variable in program.variables.items()}
    if saved and wanted and not saved.keys() & wanted.keys():
        raise CheckpointError(
            f"{path}: this checkpoint belongs to another network: it has {len(saved)} variables, such as "
            f"'{min(saved)}', but none of the {len(wanted)} variables of this network, such as '{min(wanted)}'. {_FIX}",
            settings=_SETTINGS,
        )
    faults = [
        f"'{name}' has shape {saved[name]} in the checkpoint, but {wanted[name]} in the network"
        for name in wanted
        if wanted[name] != saved.get(name, wanted[name])
    ]
    changes = SlotChanges.between(saved, wanted)
    known = {*saved, *changes.begun}
    faults += [f"'{name}' {wanted[name]} is missing from the checkpoint" for name in wanted if name not in known]
    if everything:
        known = {*wanted, *changes.dropped}
        faults += [f"'{name}' {saved[name]} is only in the checkpoint" for name in sorted(saved) if name not in known]
    if faults:
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        raise CheckpointError(
            f"{path}: this checkpoint belongs to another network or optimizer: {'; '.join(faults[:_SHOWN])}{more}. "
            f"{_FIX}",
            settings=_SETTINGS,
        )
    return changes


def check_dtypes(path: str, dtypes: Mapping[str, tf.DType], program: Program) -> None:
    """Checks that the variables of a checkpoint have the dtypes of a program, because TensorFlow does not cast them.

    Args:
      path: path of the checkpoint.
      dtypes: the dtype of each variable by its key, as returned by TensorFlow's checkpoint reader.
      program: the `Program`.

    Raises:
      CheckpointError: a dtype differs; the message names the first variable.
    """
    saved = {name: dtypes[key] for name, key in variable_keys(dtypes).items()}
    own = {name: variable.dtype for name, variable in program.variables.items()}
    differing = [name for name in own if own[name] != saved.get(name, own[name])]
    if differing:
        name, *others = differing
        more = f", and {len(others)} more variables differ" if others else ""
        raise CheckpointError(
            f"{path}: the variable '{name}' is {saved[name].name} in the checkpoint, but {own[name].name} in the "
            f"network{more}. Fix: use the dtype of the training, here dtype = '{saved[name].name}', or another "
            "model_dir.",
            settings=("dtype", "model_dir"),
        )


def variable_keys(keys: Iterable[str]) -> dict[str, str]:
    """Returns the checkpoint keys of a program's variables, {name: key}.

    Args:
      keys: all keys of the checkpoint.
    """
    return {_name(match[1]): key for key in keys if (match := _VARIABLE.match(key))}


def _name(escaped: str) -> str:
    return re.sub(r"\.S|\.\.", lambda match: "/" if match[0] == ".S" else ".", escaped)
