"""Finds the plan for which records were converted, for the last line of a command."""

import itertools
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from mtf_imaging.cli.runtime.command_lines import command_line, unused
from mtf_imaging.cli.runtime.usage import PROGRAM

if TYPE_CHECKING:  # imports NumPy
    from mtf_imaging.data.sampling.buckets import AnySampling

PLAN = "plan.gin"  # the default output of plan
_LINE = f"#   {PROGRAM} "  # a command line at the end of a plan


def planned_training(records: Path, held_out: Path | None, sampling: "AnySampling") -> str | None:
    """Returns the command line that trains on records as planned, or None if no plan matches them.

    Args:
      records: the folder of the records.
      held_out: the folder of held-out records, which replace the fold of the plan; None if there are none.
      sampling: the resolution and spacing of the records.
    """
    from mtf_imaging.data.sampling.buckets import parse_any_sampling
    from mtf_imaging.errors import DataError

    for path in sorted(Path().glob("*.gin")):
        flags = _flags_of_commands(path)
        if {"convert", "train"} <= {*flags}:
            convert, train = flags["convert"], flags["train"]
            try:
                planned = parse_any_sampling(convert["resolution"], convert["spacing"])
                if planned != sampling or Path(convert["output_dir"]).resolve() != records.resolve():
                    continue
                model_dir = unused(Path(train["model_dir"]))
            except (DataError, KeyError):  # a hand-written file
                continue
            folds = {name: train.get(name) for name in ("fold", "num_folds")}
            more = {"eval_dir": held_out} if held_out else folds
            return command_line("train", data_dir=records, model_dir=model_dir, gin_file=path, **more)
    return None


def unused_plan() -> str:
    """Returns the first of plan.gin, plan_2.gin, ... that does not exist."""
    path = Path(PLAN)
    for number in itertools.count(2):
        if not path.exists():
            break
        path = Path(f"{path.stem.partition('_')[0]}_{number}{path.suffix}")
    return str(path)


def _flags_of_commands(path: Path) -> dict[str, dict[str, str]]:
    """Returns the flags in a plan's final command lines, by command name; {} if the file is not a plan."""
    try:
        lines = path.read_text().splitlines()
        words = [shlex.split(line.removeprefix(_LINE)) for line in lines if line.startswith(_LINE)]
    except (OSError, ValueError):
        return {}
    flags = ((one[0], zip(one[1::2], one[2::2], strict=False)) for one in words if one)
    return {command: {name.removeprefix("--"): value for name, value in pairs} for command, pairs in flags}
