"""The folder that results are written to: one writer at a time, and nothing half-written is left in it."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from mtf_imaging.files import lock
from mtf_imaging.files.atomic import is_partial


@contextlib.contextmanager
def writing_to(output_dir: str | Path, *subfolders: str) -> Iterator[None]:
    """Holds an output folder for this process, and clears it of the files that a killed one did not finish.

    Args:
      output_dir: the folder; made where it is missing.
      subfolders: those of its folders that are written to, too; others may be anyone's.

    Raises:
      ConfigError: another process is writing to it.
    """
    with lock.held(output_dir):
        for folder in (Path(output_dir), *(Path(output_dir) / name for name in subfolders)):
            for path in filter(is_partial, folder.glob("*")):
                path.unlink(missing_ok=True)
        yield
