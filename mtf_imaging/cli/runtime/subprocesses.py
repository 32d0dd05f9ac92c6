"""Command lines that other commands run, each shown before it runs."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

from mtf_imaging.errors import MtfImagingError


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
