"""Holds out every fourth case of a folder."""

from pathlib import Path

from mtf_imaging.data.cases.cases import Case, find_cases, find_data_set
from mtf_imaging.data.description.dataset_json import FILE, read_description, write_description
from mtf_imaging.data.description.description import LITS
from mtf_imaging.errors import DataError
from mtf_imaging.files.partial import is_partial

EVERY = 4  # one in EVERY cases is held out


def hold_out(cases_dir: Path, train_dir: Path, held_out_dir: Path) -> list[Case]:
    """Links every fourth case into `held_out_dir` and all other cases into `train_dir`.

    Both folders get a `dataset.json`, unless the cases are LiTS cases.

    Args:
      cases_dir: the folder of cases.
      train_dir: the folder for the cases to train on.
      held_out_dir: the folder for the held-out cases.

    Returns:
      The held-out cases, at least one.

    Raises:
      DataError: there are fewer than two cases, they cannot be used, or the folders contain other files.
    """
    description, cases, _ = find_data_set(cases_dir)
    if len(cases) < 2:
        fix = "give at least 2, one to train on and one to hold out"
        raise DataError(f"{cases_dir}: contains {len(cases)} case. Fix: {fix}.")
    links, counts = {}, {train_dir: 0, held_out_dir: 0}
    for number, case in enumerate(cases):
        is_held_out = number % EVERY == min(EVERY, len(cases)) - 1
        folder = held_out_dir if is_held_out else train_dir
        counts[folder] += 1
        for file in (*case.channels, case.labels):
            links[folder / file.relative_to(cases_dir)] = file.resolve()
    described = (description.rules, description.intensities) != (LITS.rules, LITS.intensities)
    for path in (*train_dir.rglob("*.*"), *held_out_dir.rglob("*.*")):
        if described and path in (train_dir / FILE, held_out_dir / FILE):
            is_same = read_description(path.parent) == description
        else:
            is_same = path in links and path.resolve() == links[path]
        if not is_same and not is_partial(path):
            fix = "use another output_dir, or delete this one"
            raise DataError(f"{path}: this file belongs to another run. Fix: {fix}.", ["output_dir"])
    for link, file in links.items():
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            link.symlink_to(file)
    if described:
        for folder, count in counts.items():
            write_description(folder, description, count)
    return find_cases(held_out_dir)
