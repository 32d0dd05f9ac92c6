"""The run folder and its lock."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from mtf_imaging.errors import ConfigError
from mtf_imaging.files import lock
from mtf_imaging.files.contained import check_no_links
from mtf_imaging.files.partial import is_partial, remove_leftovers
from mtf_imaging.files.run_folder import BEST, CONFIG, EVAL, FACTS, TRAIN

_WANDB = "wandb"  # Weights & Biases writes to this folder, and creates links in it


@contextlib.contextmanager
def held(model_dir: str | Path) -> Iterator[None]:
    """Locks a run folder within the block, so that no other process trains in it.

    Unfinished files that killed runs have left in the folders of scores and events are deleted, including those
    from other machines and containers, because only the holder of the lock writes there.

    Raises:
      ConfigError: the folder contains other files, a subfolder that training writes to is or contains a symbolic link,
        or another process is training in the folder.
    """
    check(model_dir)
    subfolders = [Path(model_dir, name) for name in (TRAIN, EVAL, BEST)]
    check_no_links([*subfolders, Path(model_dir, _WANDB)], "model_dir")
    for subfolder in subfolders:
        check_no_links(subfolder.rglob("*"), "model_dir")
    with lock.held(model_dir, "model_dir", needed=True):
        for folder in (EVAL, TRAIN):
            remove_leftovers(Path(model_dir, folder), is_alone=True)
        yield


def check(model_dir: str | Path) -> None:
    """Checks that a folder is missing, is empty, or belongs to an earlier run.

    Raises:
      ConfigError: the folder contains other files.
    """
    path = Path(model_dir)
    others = sorted(p.name for p in path.glob("*") if not is_partial(p) and p.name != lock.NAME)
    if others and not {CONFIG, FACTS} & {*others}:
        raise ConfigError(
            f"{path}: contains {others[0]} but neither {CONFIG} nor {FACTS}, so it is not the folder of a run. "
            "Fix: give a new or empty folder as model_dir.",
            ["model_dir"],
        )
