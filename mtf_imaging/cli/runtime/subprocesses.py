"""Command lines that other commands run, each shown before it runs, and the cases that they hold out."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

from mtf_imaging.data.cases.cases import Case, find_cases
from mtf_imaging.errors import DataError, MtfImagingError

HELD_OUT = 4  # one case in so many is never trained on


def say(text: str) -> None:
    """Says what comes next."""
    print(f"\n# {text}", flush=True)


def run_command(command: str, **values) -> None:
    """Shows a command line as one would type it, and runs it in a process of its own."""
    words = [command]
    for name, value in values.items():
        for one in value if isinstance(value, list) else [value]:
            words += [f"--{name}"] if one is True else [f"--{name}", str(one)]
    print(f"$ mtf-imaging {shlex.join(words)}", flush=True)
    # The package that runs now, wherever it was imported from.
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH")]))
    program = [sys.executable, "-m", "mtf_imaging.cli.main", *words]
    if subprocess.run(program, env=os.environ | {"PYTHONPATH": path}).returncode:
        raise MtfImagingError(f"it ends here: mtf-imaging {shlex.join(words)}")


def hold_out(cases_dir: Path, train_dir: Path, held_out_dir: Path) -> list[Case]:
    """Links the cases into two folders, every fourth into the second, and returns those.

    Raises:
      DataError: there are fewer than two cases, they cannot be used, or the folders hold others.
    """
    cases = find_cases(cases_dir)
    if len(cases) < 2:
        raise DataError(f"{cases_dir}: holds {len(cases)} case. Fix: give at least 2, one to train on and one to test.")
    links = {}
    for number, case in enumerate(cases):
        is_held_out = number % HELD_OUT == min(HELD_OUT, len(cases)) - 1
        for file in (case.volume, case.labels):
            links[(held_out_dir if is_held_out else train_dir) / file.relative_to(cases_dir)] = file.resolve()
    for path in (*train_dir.rglob("*.*"), *held_out_dir.rglob("*.*")):
        if path not in links or path.resolve() != links[path]:
            raise DataError(f"{path}: is of another run. Fix: give another --output_dir, or delete this one.")
    for link, file in links.items():
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            link.symlink_to(file)
    return find_cases(held_out_dir)
