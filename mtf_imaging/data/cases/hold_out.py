"""Holds out every fourth case of a folder."""

from pathlib import Path

from mtf_imaging.data.cases.cases import Case, find_cases
from mtf_imaging.errors import DataError

EVERY = 4  # one in EVERY cases is held out


def hold_out(cases_dir: Path, train_dir: Path, held_out_dir: Path) -> list[Case]:
    """Links every fourth case into `held_out_dir` and all other cases into `train_dir`.

    Args:
      cases_dir: the folder of cases.
      train_dir: the folder for the cases to train on.
      held_out_dir: the folder for the held-out cases.

    Returns:
      The held-out cases, at least one.

    Raises:
      DataError: there are fewer than two cases, they cannot be used, or the folders contain other files.
    """
    cases = find_cases(cases_dir)
    if len(cases) < 2:
        raise DataError(
            f"{cases_dir}: contains {len(cases)} case. Fix: give at least 2, one to train on and one to hold out."
        )
    links = {}
    for number, case in enumerate(cases):
        is_held_out = number % EVERY == min(EVERY, len(cases)) - 1
        for file in (case.volume, case.labels):
            links[(held_out_dir if is_held_out else train_dir) / file.relative_to(cases_dir)] = file.resolve()
    for path in (*train_dir.rglob("*.*"), *held_out_dir.rglob("*.*")):
        if path not in links or path.resolve() != links[path]:
            raise DataError(
                f"{path}: this file belongs to another run. Fix: use another output_dir, or delete this one.",
                ["output_dir"],
            )
    for link, file in links.items():
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            link.symlink_to(file)
    return find_cases(held_out_dir)
