"""The files of checkpoints in a folder: which there are, how one appears whole, how old ones go."""

import contextlib
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

_NAME = re.compile(r"ckpt-(\d+)\.(index|data-\d+-of-\d+)$")
_TEMPORARY = "_temp"
_STATE = "checkpoint"  # where TensorFlow looks for the name of the last one


def paths(directory: Path) -> list[str]:
    """Returns the paths of the checkpoints, newest first. One is there when its index is: that is written last."""
    found = [(step, str(path.with_suffix(""))) for step, suffix, path in _files(directory) if suffix == "index"]
    return [path for _, path in sorted(found, reverse=True)]


def steps(directory: Path) -> list[int]:
    """Returns the steps of the checkpoints, ascending."""
    return sorted(step for step, suffix, _ in _files(directory) if suffix == "index")


def check_access(directory: Path) -> None:
    """Checks that all checkpoint files can be opened. TensorFlow reports a file without read permission as damaged.

    Raises:
      OSError: a file cannot be opened.
    """
    for _, _, path in _files(directory):
        with contextlib.suppress(FileNotFoundError):  # a run that is training has deleted it
            path.open("rb").close()


def write(directory: Path, step: int, write_to: Callable[[str], object]) -> None:
    """Writes a checkpoint, `ckpt-STEP`, whole or not at all.

    It is written in a folder of its own, `ckpt-STEP_temp`, from where its files are moved when all are whole.

    Args:
      directory: the folder of checkpoints; made where it is missing.
      step: its number.
      write_to: a function of the path to write to, such as `tf.train.Checkpoint.write`.
    """
    name = f"ckpt-{step}"
    temporary = directory / f"{name}{_TEMPORARY}"
    try:
        temporary.mkdir(parents=True, exist_ok=True)
        write_to(str(temporary / name))
        (temporary / _STATE).write_text(f'model_checkpoint_path: "{name}"\nall_model_checkpoint_paths: "{name}"\n')
        (directory / f"{name}.index").unlink(missing_ok=True)  # of a damaged one, whose files are replaced one by one
        for path in sorted(temporary.glob(f"{name}.*")):  # data, then index
            path.replace(directory / path.name)
        (temporary / _STATE).replace(directory / _STATE)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def delete_old(directory: Path, step: int, keep: int) -> None:
    """Deletes all but the last `keep` checkpoints up to that of `step`, and data that has no index.

    Later ones stay: they are damaged, or the run would have gone on from them, and it writes them anew in time.

    Args:
      directory: the folder of checkpoints.
      step: the step of the last checkpoint that counts.
      keep: how many stay.
    """
    found = [file for file in _files(directory) if file[0] <= step]
    kept = sorted(number for number, suffix, _ in found if suffix == "index")[-keep:]
    _delete(file for file in found if file[0] not in kept)


def delete_others(directory: Path, step: int | None) -> None:
    """Deletes all checkpoints but one, and data that has no index.

    Args:
      directory: the folder of checkpoints.
      step: the step of the checkpoint that stays; None to keep none.
    """
    _delete(file for file in _files(directory) if file[0] != step)


def sweep(directory: Path) -> None:
    """Deletes what is left of checkpoints that were being written when their run was killed."""
    for leftover in directory.glob(f"ckpt-*{_TEMPORARY}"):
        shutil.rmtree(leftover)


def _delete(files: Iterable[tuple[int, str, Path]]) -> None:
    for _, _, path in sorted(files, key=lambda file: file[1] != "index"):  # a checkpoint ends with its index
        path.unlink(missing_ok=True)


def _files(directory: Path) -> list[tuple[int, str, Path]]:
    """Returns the files of checkpoints: (step, "index" or "data-...", path)."""
    if not directory.is_dir():
        return []
    # `glob` would return nothing for a folder without read permission.
    return [(int(match[1]), match[2], path) for path in directory.iterdir() if (match := _NAME.match(path.name))]
