"""Runs commands with few descriptors, and in unusual environments."""

import dataclasses
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.reliability import good
from benchmarks.reliability.commands import PROGRAM
from benchmarks.reliability.results import ROOT, Results
from benchmarks.reliability.writers import WRITERS, Undisturbed, Writer, content

FILE = "reliability_environment.csv"
COLUMNS = ("kind", "condition", "command", "outcome", "reason", "seconds", "message")
_LIMIT_S = 150.0
_NO_SHM = 'mount -t tmpfs -o ro none /dev/shm && exec "$@"'


@dataclasses.dataclass(frozen=True)
class Condition:
    """A condition under which commands run.

    Attributes:
      kind: the row of the page.
      name: a description of the condition.
      commands: names of `WRITERS` or of `_MORE`.
      variables: variables of the environment; None removes one.
      shell: a line of sh that starts the command, "$@", or "".
      limits: limits of resources, which the command cannot raise.
      names: a text that a refusal must contain.
      may_refuse: whether a refusal with a fix is acceptable, too.
    """

    kind: str
    name: str
    commands: tuple[str, ...]
    variables: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    shell: str = ""
    limits: Mapping[int, int] = dataclasses.field(default_factory=dict)
    names: str = ""
    may_refuse: bool = False


_MORE = {
    "explain": Writer("explain --gin_file unet3d_demo --resolution 16 --picture {out}/layout.png"),
    "help": Writer("train --help"),
    "launch": Writer(
        "launch --num_processes 2 -- train --data_dir {good}/records --model_dir {out}/run --mesh_shape rows:2 "
        "--layout x:rows " + " ".join(good.TINY)
    ),
    "parameters": Writer("parameters UNet3D"),
}
_ALL = ("convert", "train", "evaluate", "predict", "score", "plan")
_SOME = ("convert", "evaluate")
_FILES = resource.RLIMIT_NOFILE
CONDITIONS = (
    *(Condition("descriptors", f"{n} files", _ALL, limits={_FILES: n}, may_refuse=True) for n in (12, 16, 24, 64)),
    Condition(
        "variables",
        "MPLBACKEND of another environment",
        ("train", "evaluate", "explain"),
        {"MPLBACKEND": "module://ipympl.backend_nbagg"},
    ),
    Condition("variables", "MPLBACKEND of a screen", ("train", "explain"), {"MPLBACKEND": "TkAgg", "DISPLAY": None}),
    Condition(
        "variables",
        "LANG=C in ASCII",
        ("convert", "predict", "help", "parameters"),
        {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"},
    ),
    Condition("variables", "HOME unset", _SOME, {"HOME": None}),
    Condition("variables", "HOME that does not exist", _SOME, {"HOME": "/nonexistent"}),
    Condition("variables", "TMPDIR that does not exist", _SOME, {"TMPDIR": "/nonexistent"}),
    Condition("variables", "PATH unset", _SOME, {"PATH": None}),
    Condition("variables", "no width of the terminal", ("help", "convert"), {"COLUMNS": "1", "TERM": "dumb"}),
    Condition(
        "variables", "PYTHONOPTIMIZE=2, without assertions", ("train", "help"), {"PYTHONOPTIMIZE": "2"}, may_refuse=True
    ),
    Condition("variables", "OMP_NUM_THREADS=0", ("train",), {"OMP_NUM_THREADS": "0"}),
    Condition("variables", "a device that does not exist", ("train",), {"CUDA_VISIBLE_DEVICES": "99"}),
    Condition(
        "variables",
        "http_proxy for local processes",
        ("launch",),
        {"http_proxy": "http://127.0.0.1:9"},
        may_refuse=True,
    ),
    Condition("streams", "stdout closed", (*_SOME, "help"), shell='exec "$@" >&-', may_refuse=True),
    Condition("streams", "stderr closed", _SOME, shell='exec "$@" 2>&-', may_refuse=True),
    Condition("streams", "stdin closed", _SOME, shell='exec "$@" <&-'),
    Condition("streams", "a reader that has ended", ("help", "parameters"), shell='"$@" | head -n 1'),
    Condition("streams", "a full disk for stdout", ("help",), shell='exec "$@" >/dev/full', may_refuse=True),
    Condition("folders", "/dev/shm that cannot be written", ("convert", "score", "train"), shell=_NO_SHM),
    Condition(
        "folders",
        "a working folder that was deleted",
        _SOME,
        shell='mkdir gone && cd gone && rmdir ../gone && exec "$@"',
        may_refuse=True,
    ),
    Condition("folders", "a umask that forbids all", _SOME, shell='umask 777 && exec "$@"', may_refuse=True),
    Condition(
        "folders",
        "an output folder that is read-only",
        (*_ALL, "export", "phantom", "import_weights"),
        shell='mount -t tmpfs -o ro none out && exec "$@"',
        names="out",
        may_refuse=True,
    ),
    Condition(
        "limits", "4 GiB of address space", ("convert", "score"), limits={resource.RLIMIT_AS: 2**32}, may_refuse=True
    ),
    Condition("limits", "files of at most 1 KB", _ALL, limits={resource.RLIMIT_FSIZE: 1000}, may_refuse=True),
)


def results(output_dir: Path) -> Results:
    """Returns the results file."""
    return Results(output_dir / FILE, COLUMNS, ("kind", "condition", "command"))


def measure(
    output_dir: Path, only: Sequence[str] = (), again: bool = False, minutes: float | None = None
) -> list[dict[str, object]]:
    """Runs the commands under all conditions, and returns the failures; see `kills.measure`."""
    file, good_dir = results(output_dir), good.prepare(output_dir / "good")
    done = set() if again else file.keys()
    end = time.monotonic() + 60 * minutes if minutes else None
    place = output_dir / "place"
    shutil.rmtree(place, ignore_errors=True)
    whole: dict[str, Undisturbed] = {}
    failures = []
    for condition in CONDITIONS:
        for command in condition.commands:
            key = (condition.kind, condition.name, command)
            if key in done or not all(word in " ".join(key) for word in only):
                continue
            if end is not None and time.monotonic() > end:
                return failures
            if command in WRITERS and command not in whole:
                whole[command] = Undisturbed(WRITERS[command], good_dir, place / command, _LIMIT_S)
            result = _run(condition, command, good_dir, place / f"{command}-now", whole.get(command))
            row = dict(zip(COLUMNS[:3], key, strict=True)) | result
            file.add(row)
            print(f"{row['outcome']:8} {': '.join(key)} {row['reason']}", flush=True)
            if row["outcome"] == "failed":
                failures.append(row)
    return failures


def _run(
    condition: Condition, command: str, good_dir: Path, place: Path, whole: Undisturbed | None
) -> dict[str, object]:
    """Starts a new Python process, because most conditions matter while modules are imported."""
    shutil.rmtree(place, ignore_errors=True)
    (place / "out").mkdir(parents=True)
    words = (WRITERS | _MORE)[command].words(good_dir, place / "out")
    line = [sys.executable, "-m", PROGRAM, *words]
    if condition.shell:
        line = ["/bin/sh", "-c", condition.shell, "sh", *line]
    if "mount " in condition.shell:
        line = ["unshare", "--mount", *line]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    for name, value in condition.variables.items():
        environment.pop(name, None)
        if value is not None:
            environment[name] = value

    def limit() -> None:
        for number, value in condition.limits.items():
            resource.setrlimit(number, (value, value))

    began = time.monotonic()
    try:
        done = subprocess.run(
            [*map(str, line)], cwd=place, env=environment, capture_output=True, timeout=_LIMIT_S, preexec_fn=limit
        )
        code, text = done.returncode, (done.stdout + done.stderr).decode(errors="replace")
    except subprocess.TimeoutExpired:
        code, text = None, ""
    outcome, reason = _judge(condition, code, text)
    if outcome == "right" and whole is not None and (difference := whole.find_difference(content(place / "out"))):
        outcome, reason = "failed", difference
    shutil.rmtree(place)
    return {
        "outcome": outcome,
        "reason": reason,
        "seconds": f"{time.monotonic() - began:.1f}",
        "message": next((row for row in text.splitlines() if "Fix:" in row), "").replace(str(place), "PLACE")[:300],
    }


def _judge(condition: Condition, code: int | None, text: str) -> tuple[str, str]:
    if code is None:
        return "failed", f"ran for more than {_LIMIT_S:.0f} s"
    if "Traceback" in text:
        return "failed", f"ended in a traceback: {' '.join(text.split())[-150:]}"
    if code == 0:
        return "right", ""
    if not condition.may_refuse:
        return "failed", f"exit code {code}: {' '.join(text.split())[-150:]}"
    if "2>&-" in condition.shell:
        return "refused", ""
    if "Fix:" not in text or condition.names not in text:
        return "failed", f"exit code {code} without a fix: {' '.join(text.split())[-150:]}"
    return "refused", ""
