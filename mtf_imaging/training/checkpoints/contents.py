"""Whether a checkpoint is of the network that it is to be restored into."""

import re
from collections.abc import Mapping, Sequence

from mtf_imaging.errors import CheckpointError
from mtf_imaging.program.program import Program

# How tf.train.Checkpoint(program=...) calls a variable of a program; in names, "/" is written ".S" and "." "..".
_VARIABLE = re.compile(r"program/_masters/_named/(.+)/\.ATTRIBUTES/VARIABLE_VALUE$")
_SHOWN = 4
_FIX = "Fix: use the task and the optimizer that it was trained with, or another model_dir."
_SETTINGS = ("task", "optimizer", "model_dir")


def check_contents(path: str, shapes: Mapping[str, Sequence[int]], program: Program, everything: bool) -> None:
    """Compares the variables of a checkpoint and of a program.

    Args:
      path: path of the checkpoint.
      shapes: its shapes by key, as TensorFlow's reader gives them.
      program: the `Program`.
      everything: whether variables of the checkpoint that the program lacks are a fault.

    Raises:
      CheckpointError: they are not of one network; names the first variables that differ.
    """
    saved = {_name(match[1]): list(shape) for key, shape in shapes.items() if (match := _VARIABLE.match(key))}
    wanted = {name: variable.shape.as_list() for name, variable in program.variables.items()}
    if saved and wanted and not saved.keys() & wanted.keys():
        raise CheckpointError(
            f"{path}: this checkpoint belongs to another network: it has {len(saved)} variables, such as "
            f"'{min(saved)}', but none of the {len(wanted)} variables of this network, such as '{min(wanted)}'. {_FIX}",
            settings=_SETTINGS,
        )
    faults = [
        f"'{name}' is {saved[name]} in it, {wanted[name]} here"
        for name in wanted
        if wanted[name] != saved.get(name, wanted[name])
    ]
    faults += [f"'{name}' {wanted[name]} is not in it" for name in wanted if name not in saved]
    if everything:
        faults += [f"'{name}' {saved[name]} is only in it" for name in sorted(saved) if name not in wanted]
    if faults:
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        raise CheckpointError(
            f"{path}: this checkpoint belongs to another network or optimizer: {'; '.join(faults[:_SHOWN])}{more}. "
            f"{_FIX}",
            settings=_SETTINGS,
        )


def _name(escaped: str) -> str:
    return re.sub(r"\.S|\.\.", lambda match: "/" if match[0] == ".S" else ".", escaped)
