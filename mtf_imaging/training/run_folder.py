"""The folder of a run, `--model_dir`: what lies where, and keeping other files out of it. Pure Python."""

import re
from pathlib import Path

from mtf_imaging.errors import CheckpointError, DataError

CONFIG = "config.gin"
TRAIN, EVAL, BEST = "train", "eval", "best"  # folders: events; scores and events; the best checkpoint
_CHECKPOINT = re.compile(r"ckpt-\d+\.index")


def is_run(folder: Path) -> bool:
    """Whether a folder holds the configuration or checkpoints of a run."""
    return (folder / CONFIG).is_file() or _has_checkpoint(folder)


def weights_folder(model_dir: str | Path, checkpoint: str) -> Path:
    """The folder of the last checkpoint of a run, or of its best.

    Args:
      model_dir: the folder of the run.
      checkpoint: "last" or "best".

    Raises:
      CheckpointError: there is none.
    """
    folder = Path(model_dir) / BEST if checkpoint == "best" else Path(model_dir)
    if _has_checkpoint(folder):
        return folder
    if checkpoint == "best":
        raise CheckpointError(
            f"{model_dir}: holds no best checkpoint, because no held-out cases were evaluated while it was trained. "
            "Fix: train with --eval_dir, or take the last one with --checkpoint last."
        )
    raise CheckpointError(f"{model_dir}: holds no checkpoint. Fix: train first, with it as --model_dir.")


def check_no_run(output_dir: str | Path) -> None:
    """Checks that results would not land among the checkpoints, events or scores of a run.

    A folder of its own within that of a run is legal, `run/evaluation`.

    Raises:
      DataError: the folder is that of a run, or one that training writes to.
    """
    folder = Path(output_dir).resolve()
    if is_run(folder):
        run = folder
    elif folder.name in (TRAIN, EVAL, BEST) and is_run(folder.parent):
        run = folder.parent
    else:
        return
    raise DataError(
        f"{output_dir}: training writes to this folder; {run} is the folder of a run. "
        f"Fix: give a folder of its own, for instance {run / 'evaluation'}."
    )


def _has_checkpoint(folder):
    return any(_CHECKPOINT.fullmatch(path.name) for path in folder.glob("ckpt-*.index"))
