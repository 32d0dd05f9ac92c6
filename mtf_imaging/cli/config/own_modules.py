"""Imports the Python modules that gin files name, including the user's modules in the folders of the gin files.

An import runs the module's code, and the `config.gin` of a run may come from an untrusted source. Each module is
therefore announced with its file before it is imported, and the user can forbid the import.
"""

import importlib.machinery
import logging
import sys
import traceback
from pathlib import Path

from mtf_imaging.errors import ConfigError
from mtf_imaging.spelling import did_you_mean

_PACKAGE = __package__.split(".")[0]
_logger = logging.getLogger(__name__)


class OwnModules:
    """Imports modules; the user's modules are in a few added folders.

    The folders come last in `sys.path`, so a user's file with a library's name never replaces the library.

    Args:
      allowed: whether modules outside of this package may be imported.

    Attributes:
      named_in: the place that names the modules, for messages.
    """

    def __init__(self, allowed: bool = True):
        self._allowed = allowed
        self._folders: list[Path] = []
        self.named_in = "the configuration"

    def add_folder(self, folder: Path) -> None:
        """Adds a folder to search for modules, after previously added folders."""
        folder = folder.resolve()
        if folder not in self._folders:
            self._folders.append(folder)
        if str(folder) not in sys.path:
            sys.path.append(str(folder))

    def import_module(self, name: str, fromlist=None):
        """Imports a module as `__import__(name, fromlist=fromlist)` does.

        Raises:
          ConfigError: the module does not exist, an installed module has its name, it raises an error, or imports are
            not allowed.
        """
        if name.split(".")[0] != _PACKAGE:
            self._announce(name)
        try:
            module = __import__(name, fromlist=fromlist)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise _failed(name, error) from error  # the module exists, but imports a module that does not
            raise self._not_found(error.name) from error
        except Exception as error:
            raise _failed(name, error) from error
        self._check_place(name.split(".")[0])
        return module

    def _announce(self, name: str) -> None:
        """Logs the file of a module before its code runs, or refuses the module."""
        spec = importlib.machinery.PathFinder.find_spec(name.split(".")[0])  # imports nothing
        place = (spec and (spec.origin or next(iter(spec.submodule_search_locations or ()), None))) or "built in"
        if not self._allowed:
            raise ConfigError(
                f"{self.named_in} imports the module '{name}' ({place}), which runs its code, and import_modules is "
                "False. Fix: read the module; if you trust it, allow import_modules.",
                ["import_modules"],
            )
        _logger.info("%s imports the module '%s': running %s", self.named_in, name, place)

    def _not_found(self, name: str) -> ConfigError:
        own = {path.stem for folder in self._folders for path in folder.glob("*.py")}
        folders = ", ".join(map(str, self._folders))
        return ConfigError(
            f"there is no module '{name}', neither installed nor in {folders}.{did_you_mean(name, own)} "
            "Fix: run the command in the folder of the module, or add the folder to PYTHONPATH."
        )

    def _check_place(self, name: str) -> None:
        """Checks that an imported module is the user's module, if the user has one with that name."""
        if name == _PACKAGE:
            return
        own = importlib.machinery.PathFinder.find_spec(name, [str(folder) for folder in self._folders])
        if own is None or own.origin is None:  # without a file, it is only a folder with that name
            return
        file = getattr(sys.modules[name], "__file__", None)
        if file is None or Path(file).resolve() != Path(own.origin).resolve():
            raise ConfigError(
                f"'import {name}' imports another module of that name ({file or 'built in'}), not {own.origin}. "
                "Fix: rename your module."
            )


def _failed(name: str, error: Exception) -> ConfigError:
    """Returns the error for a module that failed, with a traceback that omits the import system's frames."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_import_frame(frame.filename)]
    shown = [*traceback.format_list(frames), *traceback.format_exception_only(error)]
    return ConfigError(f"module '{name}' cannot be imported:\n{''.join(shown).rstrip()}")


def _is_import_frame(file: str) -> bool:
    return file == __file__ or file.startswith("<frozen importlib")
