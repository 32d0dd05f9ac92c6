r"""Paths for TensorFlow, which treats checkpoint and model paths as patterns: `run[1]` matches `run1`."""

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mtf_imaging.errors import ConfigError

_PATTERN = re.compile(r"[][*?\\\ud800-\udfff]")  # keeps bytes that are not UTF-8, which TensorFlow cannot encode
_LINKED = "checkpoint"


@contextlib.contextmanager
def literal_prefix(prefix: str | os.PathLike) -> Iterator[str]:
    r"""Yields a path to the same files that TensorFlow cannot mistake for a pattern.

    TensorFlow looks up checkpoint files with a pattern, so it does not find them if their path contains `[` or `\`.
    These characters cannot be escaped, because TensorFlow opens the files with the same string as a plain path.

    Args:
      prefix: the path of a checkpoint without its extensions. Its folder exists.

    Yields:
      `prefix` itself if it has no such characters; else a path that is valid within the block.
    """
    prefix = os.fspath(prefix)
    if not _PATTERN.search(prefix):
        yield prefix
        return
    folder, name = os.path.split(prefix)
    with contextlib.ExitStack() as stack:
        alias = stack.enter_context(_open_folder(folder or os.curdir))
        if alias is None or _PATTERN.search(name):
            alias = stack.enter_context(tempfile.TemporaryDirectory(prefix="mtf-imaging-"))
            for path in Path(folder).resolve().iterdir():
                if path.name.startswith(name):
                    os.symlink(path, os.path.join(alias, f"{_LINKED}{path.name.removeprefix(name)}"))
            name = _LINKED
        yield os.path.join(alias, name)


@contextlib.contextmanager
def _open_folder(folder: str) -> Iterator[str | None]:
    """Yields a path under `/proc` that refers to a folder, or None on systems without one, such as macOS."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        alias = f"/proc/self/fd/{descriptor}"
        yield alias if os.path.isdir(alias) else None
    finally:
        os.close(descriptor)


def check_literal(path: str | os.PathLike, setting: str = "output") -> None:
    """Checks that TensorFlow can load a model from a folder.

    Args:
      path: the folder.
      setting: the keyword argument that names the folder.

    Raises:
      ConfigError: the path contains pattern characters.
    """
    if found := _PATTERN.search(os.fspath(path)):
        raise ConfigError(
            f"{path}: TensorFlow cannot load a model from a path with {found[0]!r}, which it reads as a pattern. "
            f"Fix: choose another {setting}, or name it relative to the working folder.",
            [setting],
        )
