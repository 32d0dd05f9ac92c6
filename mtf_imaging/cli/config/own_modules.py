"""Python modules that gin files import: those of the user are found beside the gin file, and their errors shown."""

import importlib.machinery
import sys
import traceback
from pathlib import Path

from mtf_imaging.errors import ConfigError
from mtf_imaging.spelling import did_you_mean

_PACKAGE = __package__.split(".")[0]


class OwnModules:
    """Imports modules, of which a user's own lie in a few folders.

    The folders come last in `sys.path`: a file of the user's that is called as a library is never imported in its
    place, by us or by other libraries.
    """

    def __init__(self):
        self._folders: list[Path] = []

    def add_folder(self, folder: Path) -> None:
        """Lets modules be found in a folder, after those that were added before."""
        folder = folder.resolve()
        if folder not in self._folders:
            self._folders.append(folder)
        if str(folder) not in sys.path:
            sys.path.append(str(folder))

    def import_module(self, name: str, fromlist=None):
        """Imports a module as `__import__(name, fromlist=fromlist)` does.

        Raises:
          ConfigError: there is no such module, an installed one has its name, or it raises an error when it is run.
        """
        try:
            module = __import__(name, fromlist=fromlist)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise _failed(name, error) from error  # the module is there, and imports another that is not
            raise self._not_found(error.name) from error
        except Exception as error:
            raise _failed(name, error) from error
        self._check_place(name.split(".")[0])
        return module

    def _not_found(self, name: str) -> ConfigError:
        own = {path.stem for folder in self._folders for path in folder.glob("*.py")}
        folders = ", ".join(map(str, self._folders))
        return ConfigError(
            f"there is no module '{name}', neither installed nor in {folders}.{did_you_mean(name, own)} "
            "Fix: start the command in the folder of the module, or put that into PYTHONPATH."
        )

    def _check_place(self, name: str) -> None:
        """Checks that a module is the user's where there is one of the user's."""
        if name == _PACKAGE:
            return
        own = importlib.machinery.PathFinder.find_spec(name, [str(folder) for folder in self._folders])
        if own is None or own.origin is None:  # without a file it is a mere folder of that name
            return
        found = getattr(sys.modules[name], "__file__", None)
        if found is None or Path(found).resolve() != Path(own.origin).resolve():
            raise ConfigError(
                f"'import {name}' finds Python's or an installed '{name}' ({found or 'built in'}), not {own.origin}. "
                "Fix: give your module another name."
            )


def _failed(name: str, error: Exception) -> ConfigError:
    """An error in a module, shown with the lines that led to it, without those of Python's and gin's import."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_of_import(frame.filename)]
    shown = [*traceback.format_list(frames), *traceback.format_exception_only(error)]
    return ConfigError(f"module '{name}' cannot be imported:\n{''.join(shown).rstrip()}")


def _is_of_import(file: str) -> bool:
    return file == __file__ or file.startswith("<frozen importlib")
