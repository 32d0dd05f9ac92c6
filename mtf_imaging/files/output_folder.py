"""Output folders: one writer at a time, without unfinished files and folders of earlier runs."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from mtf_imaging.errors import DataError
from mtf_imaging.files import lock
from mtf_imaging.files.contained import contained
from mtf_imaging.files.partial import remove_leftovers


@contextlib.contextmanager
def writing_to(output_dir: str | Path, *subfolders: str) -> Iterator[None]:
    """Locks an output folder for this process and deletes unfinished files and folders of killed processes.

    They are also deleted at the end, because a worker that is terminated after an error may leave some.

    Args:
      output_dir: the folder. A missing folder is created.
      *subfolders: names of the subfolders that this process also writes to. Other subfolders are not cleaned.

    Raises:
      ConfigError: another process is writing to the folder.
      DataError: a subfolder is a symbolic link that leads out of the folder.
    """
    folders = [Path(output_dir), *(contained(output_dir, name, lock.NAME).parent for name in subfolders)]
    with lock.held(output_dir):
        for folder in folders:
            remove_leftovers(folder)
        try:
            yield
        finally:
            for folder in folders:
                remove_leftovers(folder)


def check_outside(output_dir: Path, input_dir: Path) -> None:
    """Raises DataError if the output folder lies in the case folder.

    Later commands would mistake the predictions there for references.
    """
    if output_dir.resolve().is_relative_to(input_dir.resolve()):
        raise DataError(f"{output_dir}: lies in the folder of the cases, {input_dir}. Fix: write to another folder.")
