"""Command lines in shell syntax, and names for the folders in them."""

import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

from mtf_imaging.cli.runtime.usage import PROGRAM


def command_words(command: str, values: dict[str, Any]) -> list[str]:
    """Returns the words of a command line after the name of the program.

    Args:
      command: the name of the command.
      values: {flag: value}. A list repeats its flag, True stands for a flag without a value, and None is left out.

    >>> command_words("train", {"data_dir": "records", "fold": None, "gin_file": ["unet3d_demo", "4x4"]})
    ['train', '--data_dir', 'records', '--gin_file', 'unet3d_demo', '--gin_file', '4x4']
    """
    words = [command]
    for name, value in values.items():
        for one in value if isinstance(value, list | tuple) else [value]:
            if one is not None and one is not False:
                words += [f"--{name}"] if one is True else [f"--{name}", str(one)]
    return words


def beside(path: str | Path, name: str) -> Path:
    """Returns the path of a sibling with another name."""
    return Path(path).parent / name


def unused(path: Path) -> Path:
    """Returns the path, or the first of path_2, path_3, ... that does not exist."""
    stem, number = re.sub(r"_\d+$", "", path.name), 2
    while path.exists():
        path, number = path.with_name(f"{stem}_{number}"), number + 1
    return path


def command_line(command: str, **values: Any) -> str:
    """Returns a command line with flags, as in `command_words`."""
    return shlex.join([as_typed(PROGRAM), *command_words(command, values)])


def quoted(path: str | Path) -> str:
    """Quotes a path for a shell."""
    return shlex.quote(str(path))


def as_typed(program: str) -> str:
    """Returns the shell word for a program of this environment: its name if it is on the path, else its file."""
    this = Path(sys.argv[0])
    beside = this.with_name(program)
    if this.name == PROGRAM and shutil.which(program) is None and beside.is_file():
        return str(beside)
    return program
