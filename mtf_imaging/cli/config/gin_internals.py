"""The private gin names that this package uses, in one file. Checked with gin-config 0.5.0."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any, TextIO

import gin


def configurables() -> Iterator[tuple[str, Any]]:
    """Yields the full name and the registration of every configurable, because gin has no public list."""
    yield from gin.config._REGISTRY.items()


def bindings() -> dict[tuple[str, str], dict[str, Any]]:
    """Returns the bound values, by scope and full name of their configurable and by parameter."""
    return gin.config._CONFIG


def wrapped(name: str) -> Callable:
    """Returns the function or class that is registered under a name; gin's class wrapper hides its signature."""
    return gin.config._REGISTRY.get_match(name).wrapped


def read_files_with(read: Callable[[str], TextIO]) -> None:
    """Makes gin open files only with this function; gin's readers search Python packages and fail on folders."""
    gin.config._FILE_READERS[:] = [(read, lambda name: True)]


def import_modules_with(import_module: Callable) -> None:
    """Makes gin import modules with this function; gin's own import hides the folder and the place of a failure.

    Args:
      import_module: a function of the name, the argument `fromlist` of `__import__`, and the file with the statement.
    """

    def import_from_file(name: str, fromlist: Any = None) -> Any:
        frame = inspect.currentframe()
        assert frame is not None
        assert frame.f_back is not None
        return import_module(name, fromlist, frame.f_back.f_locals["statement"].location.filename)

    gin.config.__import__ = import_from_file
