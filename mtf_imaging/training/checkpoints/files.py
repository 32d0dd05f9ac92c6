"""The checkpoint files in a folder: lists, writes and deletes them."""

import contextlib
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import tensorflow as tf

from mtf_imaging.files.atomic import sync
from mtf_imaging.files.literal import literal_prefix
from mtf_imaging.files.partial import remove

_NAME = re.compile(r"ckpt-(\d+)\.(index|data-\d+-of-\d+)$")
_TEMPORARY = "_temp"
# The errors that TensorFlow raises for damaged files.
DAMAGED = (tf.errors.OpError, RuntimeError, IndexError)
_STATE = "checkpoint"  # the file in which TensorFlow looks up the name of the last checkpoint


def paths(directory: Path) -> list[str]:
    """Returns the paths of the checkpoints, newest first.

    A checkpoint counts only if its index exists, because the index is written last.
    """
    indexes = [(step, str(path.with_suffix(""))) for step, suffix, path in _files(directory) if suffix == "index"]
    return [path for _, path in sorted(indexes, reverse=True)]


def steps(directory: Path) -> list[int]:
    """Returns the steps of the checkpoints, ascending."""
    return sorted(step for step, suffix, _ in _files(directory) if suffix == "index")


def check_access(directory: Path) -> None:
    """Checks that all checkpoint files can be opened, because TensorFlow reports an unreadable file as damaged.

    Raises:
      OSError: a file cannot be opened.
    """
    for _, _, path in _files(directory):
        with contextlib.suppress(FileNotFoundError):  # deleted by a run that is training
            path.open("rb").close()


def write(directory: Path, step: int, write_to: Callable[[str], object]) -> None:
    """Writes the checkpoint `ckpt-STEP` atomically.

    The files are written to a temporary folder, `ckpt-STEP_temp`, and moved once all are complete. Everything is
    flushed to disk before the index gets its name, so a power failure cannot leave a checkpoint without its data. If
    the process is killed while it moves the files, `sweep` moves the others.

    Args:
      directory: the folder of checkpoints, which is created if it is missing.
      step: the step number of the checkpoint.
      write_to: a function that writes the checkpoint to a given path, such as `tf.train.Checkpoint.write`.
    """
    name = f"ckpt-{step}"
    temporary = directory / f"{name}{_TEMPORARY}"
    try:
        remove(temporary)  # a link to another folder would be followed
        temporary.mkdir(parents=True)
        with literal_prefix(temporary / name) as prefix:
            write_to(prefix)
        state = temporary / "state"
        state.write_text(f'model_checkpoint_path: "{name}"\nall_model_checkpoint_paths: "{name}"\n')
        for path in temporary.iterdir():
            sync(path)
        sync(temporary)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    state.replace(temporary / _STATE)
    _move(temporary)


def _move(temporary: Path) -> None:
    """Moves the files of a complete checkpoint from its temporary folder, which may have moved some of them before."""
    directory, name = temporary.parent, temporary.name.removesuffix(_TEMPORARY)
    if (temporary / f"{name}.index").exists():
        (directory / f"{name}.index").unlink(missing_ok=True)  # of an earlier checkpoint of the same step
    for path in sorted(temporary.glob(f"{name}.*")):  # data, then index
        if path.suffix == ".index":
            sync(directory)
        path.replace(directory / path.name)
    (temporary / _STATE).replace(directory / _STATE)
    sync(directory)
    shutil.rmtree(temporary, ignore_errors=True)


def delete_old(directory: Path, step: int, keep: int) -> None:
    """Deletes all but the last `keep` checkpoints up to `step`, and data files without an index.

    Checkpoints after `step` remain. They must be damaged, because the run did not resume from them, and the run will
    overwrite them.

    Args:
      directory: the folder of checkpoints.
      step: the step of the run's last checkpoint.
      keep: number of checkpoints to keep.
    """
    files = [file for file in _files(directory) if file[0] <= step]
    kept = sorted(number for number, suffix, _ in files if suffix == "index")[-keep:]
    _delete(file for file in files if file[0] not in kept)


def delete_others(directory: Path, step: int | None) -> None:
    """Deletes all checkpoints except one, and data files without an index.

    Args:
      directory: the folder of checkpoints.
      step: the step of the checkpoint to keep; None to delete all.
    """
    _delete(file for file in _files(directory) if file[0] != step)


def sweep(directory: Path) -> None:
    """Deletes the temporary folders of killed runs, after moving the checkpoints that are complete."""
    for leftover in directory.glob(f"ckpt-*{_TEMPORARY}"):
        if (leftover / _STATE).is_file() and not leftover.is_symlink():
            _move(leftover)
        remove(leftover)


def _delete(files: Iterable[tuple[int, str, Path]]) -> None:
    # The index first, because a checkpoint without it no longer exists.
    for _, _, path in sorted(files, key=lambda file: file[1] != "index"):
        path.unlink(missing_ok=True)


def _files(directory: Path) -> list[tuple[int, str, Path]]:
    """Returns the checkpoint files as tuples (step, "index" or "data-...", path)."""
    if not directory.is_dir():
        return []
    # Not `glob`, which returns nothing for a folder without read permission.
    return [(int(match[1]), match[2], path) for path in directory.iterdir() if (match := _NAME.match(path.name))]
