"""Runs the jobs of a kind of data, and compares the digests of everything that they write with the reference."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.golden import commands
from tests.golden.content import is_same
from tests.golden.files import digests
from tests.golden.jobs import DEMOS, FLOAT32, KINDS
from tests.jobs.launched import ROOT, launch

REFERENCE = Path(__file__).parent / "digests.json"
PROCESSES = (1, 2)


def written(name: str, root: Path) -> dict[str, str]:
    """Runs the jobs of a kind in one process and in two, and returns the digests of what they write.

    Args:
      name: the kind.
      root: the folder in which the folder of the kind is made.
    """
    kind, folder = (KINDS | DEMOS)[name], root / name
    (folder / "data").mkdir(parents=True)
    with contextlib.chdir(folder):
        kind.write(folder / "data")
        Path("job.gin").write_text(kind.gin)
        Path("float32.gin").write_text(FLOAT32)
        for processes in PROCESSES:
            if lines := kind.commands(processes):
                Path(f"lines_{processes}.json").write_text(json.dumps(lines))
                _run(processes, Path(f"lines_{processes}.json"))
    return {path: digest for processes in PROCESSES for path, digest in digests(folder / str(processes), root)}


def _run(processes: int, lines: Path) -> None:
    if processes > 1:
        launch(processes, commands.__file__, lines)
        return
    environ = os.environ | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run([sys.executable, commands.__file__, lines], env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def reference(name: str) -> dict[str, str]:
    """Returns the digests of a kind in the reference."""
    return {path: digest for path, digest in _stored().items() if path.startswith(f"{name}/")}


def differences(expected: dict[str, str], found: dict[str, str]) -> Iterator[str]:
    """Yields a line for each file that is added, missing or changed."""
    for path in sorted(expected.keys() | found.keys()):
        if path not in found:
            yield f"missing: {path}"
        elif path not in expected:
            yield f"added: {path}"
        elif not is_same(expected[path], found[path]):
            yield f"changed: {path} ({expected[path]} -> {found[path]})"


def store(name: str, found: dict[str, str]) -> None:
    """Replaces the digests of a kind in the reference; those of equal contents stay as they are."""
    old = _stored()
    kept = {path: digest for path, digest in old.items() if not path.startswith(f"{name}/")}
    new = {path: old[path] if is_same(old.get(path, "- nan"), digest) else digest for path, digest in found.items()}
    REFERENCE.write_text(json.dumps(kept | new, indent=0, sort_keys=True) + "\n")


def _stored() -> dict[str, str]:
    return json.loads(REFERENCE.read_text()) if REFERENCE.exists() else {}
