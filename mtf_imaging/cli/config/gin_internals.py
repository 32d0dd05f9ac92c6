"""The private names of gin that this package needs, in one file. Checked on gin-config 0.5.0."""

from collections.abc import Callable, Iterator
from typing import Any, TextIO

import gin


def configurables() -> Iterator[tuple[str, Any]]:
    """Yields the full name and the registration of every configurable; gin has no public list."""
    yield from gin.config._REGISTRY.items()


def wrapped(name: str) -> Callable:
    """Returns what was registered under a name: gin's own wrapper of a class takes any arguments."""
    return gin.config._REGISTRY.get_match(name).wrapped


def read_files_with(read: Callable[[str], TextIO]) -> None:
    """Makes gin open files by a function alone; its own readers look into Python packages and stumble over folders."""
    gin.config._FILE_READERS[:] = [(read, lambda name: True)]


def import_modules_with(import_module: Callable) -> None:
    """Makes gin import modules by a function; its own names no folder, and hides where a module fails."""
    gin.config.__import__ = import_module
