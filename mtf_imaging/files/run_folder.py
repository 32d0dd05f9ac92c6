"""Paths in the run folder, `model_dir`, and a check that keeps other files out of it. Pure Python."""

import re
from pathlib import Path

from mtf_imaging.errors import CheckpointError, ConfigError, DataError
from mtf_imaging.spelling import did_you_mean

CONFIG = "config.gin"  # the saved configuration of the command line
FACTS = "run.json"  # facts that depend on the data; see `jobs.run`
TRAIN, EVAL, BEST = "train", "eval", "best"  # subfolders: events; scores and events; the best checkpoint
_FOLD = "fold_"  # the folders of a cross-validation: fold_0, fold_1, ...
_CHECKPOINT = re.compile(r"ckpt-\d+\.index")


def is_run(folder: Path) -> bool:
    """Returns whether a folder contains the configuration or checkpoints of a run."""
    return any((folder / name).is_file() for name in (CONFIG, FACTS)) or _has_checkpoint(folder)


def fold_folder(output_dir: str | Path, fold: int) -> Path:
    """Returns the run folder of one cross-validation fold."""
    return Path(output_dir) / f"{_FOLD}{fold}"


def fold_folders(output_dir: str | Path) -> dict[int, Path]:
    """Returns the run folders of a cross-validation by fold number, in ascending order."""
    folders = (path for path in Path(output_dir).glob(f"{_FOLD}*") if path.is_dir())
    numbered = {path.name.removeprefix(_FOLD): path for path in folders}
    return {int(number): numbered[number] for number in sorted(filter(str.isdecimal, numbered), key=int)}


def weights_folder(model_dir: str | Path, checkpoint: str) -> Path:
    """Returns the folder that contains the last or best checkpoint of a run.

    Args:
      model_dir: the run folder.
      checkpoint: "last" or "best".

    Raises:
      ConfigError: `checkpoint` is something else.
      CheckpointError: the run has no such checkpoint.
    """
    if checkpoint not in ("last", "best"):
        hint = did_you_mean(checkpoint, ("last", "best")) if isinstance(checkpoint, str) else ""
        raise ConfigError(
            f"checkpoint = {checkpoint!r} is not known.{hint} Fix: choose 'last' or 'best'.", ["checkpoint"]
        )
    folder = Path(model_dir) / BEST if checkpoint == "best" else Path(model_dir)
    if _has_checkpoint(folder):
        return folder
    if checkpoint == "best":
        raise CheckpointError(
            f"{model_dir}: this run has no best checkpoint, because training evaluated no held-out cases. "
            "Fix: train with an eval_dir or a fold, or use the last checkpoint, with checkpoint='last'.",
            settings=["eval_dir", "fold", "checkpoint"],
        )
    raise CheckpointError(
        f"{model_dir}: this folder holds no checkpoint. Fix: train there first, or give another model_dir.",
        settings=["model_dir"],
    )


def last_index(folder: str | Path) -> Path:
    """Returns the index file of the last checkpoint in a folder that `weights_folder` returned."""
    indexes = (path for path in Path(folder).iterdir() if _CHECKPOINT.fullmatch(path.name))
    return max(indexes, key=lambda path: int(path.stem.partition("-")[2]))


def check_no_run(output_dir: str | Path) -> None:
    """Checks that an output folder does not contain the checkpoints, events or scores of a run.

    A separate folder within a run is legal, for instance `run/evaluation`.

    Raises:
      DataError: the folder is a run folder, or a subfolder that training writes to.
    """
    folder = Path(output_dir).resolve()
    if is_run(folder):
        run = folder
    elif folder.name in (TRAIN, EVAL, BEST) and is_run(folder.parent):
        run = folder.parent
    else:
        return
    raise DataError(
        f"{output_dir}: training writes to this folder, because {run} is the folder of a run. "
        f"Fix: choose a separate folder, for instance {run / 'evaluation'}."
    )


def _has_checkpoint(folder: Path) -> bool:
    return any(_CHECKPOINT.fullmatch(path.name) for path in folder.glob("ckpt-*.index"))
