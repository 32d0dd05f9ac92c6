"""Imports of the user's modules from their folders, without adding these folders to `sys.path`.

In `sys.path`, a folder serves every import. Many libraries try to import modules that may be missing, such as `winreg`
on Linux, so a file with such a name would run, although nobody has named it.
"""

import inspect
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path


class UserModules:
    """Finds the modules that were added by name, and the modules that these import from their own folders.

    It comes last in `sys.meta_path`, so a user's file with a library's name never replaces the library. A pickle of it
    adds its modules where it is loaded: other processes need them to load objects of the user's classes.
    """

    def __init__(self) -> None:
        self._folders: dict[str, str] = {}  # by name, without the names of submodules

    def add(self, name: str, folder: str | Path) -> None:
        """Adds a module, or a package with its submodules.

        Args:
          name: the name.
          folder: the folder that contains it.
        """
        self._folders[name] = str(folder)
        if self not in sys.meta_path:
            sys.meta_path.append(self)

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Finds a module for Python's import system; see `importlib.abc.MetaPathFinder`."""
        folder = self._folders.get(name) or self._folders.get(_importer())
        spec = PathFinder.find_spec(name, [folder]) if folder and "." not in name else None
        if spec and folder:
            self._folders[name] = folder
        return spec

    def __reduce__(self) -> tuple:
        return _with_modules, (self._folders,)


USER_MODULES = UserModules()


def _with_modules(folders: dict[str, str]) -> UserModules:
    for name, folder in folders.items():
        USER_MODULES.add(name, folder)
    return USER_MODULES


def _importer() -> str:
    """Returns the name of the module whose code imports another one, without the names of submodules."""
    frame, name = inspect.currentframe(), __name__
    while frame and (name == __name__ or name.startswith("importlib.") or name == "importlib"):
        name, frame = str(frame.f_globals.get("__name__")), frame.f_back
    return name.partition(".")[0]
