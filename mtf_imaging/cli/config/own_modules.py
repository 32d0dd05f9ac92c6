"""Imports the Python modules that gin files name, including the user's modules in the folders of the gin files.

An import runs the module's code, and the `config.gin` of a run may come from an untrusted source. Each module is
therefore announced with its file before it is imported, and the user can forbid the import.
"""

import logging
import sys
import traceback
from importlib.machinery import BuiltinImporter, ModuleSpec, PathFinder
from pathlib import Path

from mtf_imaging.errors import ConfigError
from mtf_imaging.files.user_modules import USER_MODULES
from mtf_imaging.spelling import did_you_mean

_PACKAGE = __package__.split(".")[0]
_logger = logging.getLogger(__name__)


class OwnModules:
    """Imports modules of libraries, and those of the user from a few more folders.

    An installed module takes precedence, so a user's file with a library's name never replaces the library. Only
    imports by name find the user's modules, and only the user's modules find others in their own folders.

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

    def import_module(self, name: str, fromlist=None, file: str | None = None):
        """Imports a module as `__import__(name, fromlist=fromlist)` does, for a file that names it.

        Raises:
          ConfigError: the module does not exist, an installed module has its name, it raises an error, or imports are
            not allowed.
        """
        self.named_in = file or self.named_in
        top = name.split(".")[0]
        own, folder = (None, Path()) if top == _PACKAGE else self._find(top)
        if top != _PACKAGE:
            installed = BuiltinImporter.find_spec(top) or PathFinder.find_spec(top)
            self._announce(name, installed or own)
            if own and not installed:
                USER_MODULES.add(top, folder)
        try:
            module = __import__(name, fromlist=fromlist)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise _failed(name, error) from error  # the module exists, but imports a module that does not
            raise self._not_found(error.name) from error
        except Exception as error:
            raise _failed(name, error) from error
        if own and own.origin:
            _check_place(top, own.origin)
        return module

    def _find(self, name: str) -> tuple[ModuleSpec | None, Path]:
        """Finds a module of the user, and the folder that contains it; imports nothing."""
        specs = [(PathFinder.find_spec(name, [str(folder)]), folder) for folder in self._folders]
        # A folder without a file is a package, too, but it may contain something else.
        return max(specs, key=lambda found: (found[0] is not None, bool(found[0] and found[0].origin)))

    def _announce(self, name: str, spec: ModuleSpec | None) -> None:
        """Logs the file of a module before its code runs, or refuses the module."""
        place = spec and (spec.origin or next(iter(spec.submodule_search_locations or ()), None))
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


def _check_place(name: str, origin: str) -> None:
    """Checks that an imported module is the user's module, whose file is `origin`."""
    file = getattr(sys.modules[name], "__file__", None)
    if file is None or Path(file).resolve() != Path(origin).resolve():
        raise ConfigError(
            f"'import {name}' imports another module of that name ({file or 'built in'}), not {origin}. "
            "Fix: rename your module."
        )


def _failed(name: str, error: Exception) -> ConfigError:
    """Returns the error for a module that failed, with a traceback that omits the import system's frames."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_import_frame(frame.filename)]
    shown = [*traceback.format_list(frames), *traceback.format_exception_only(error)]
    return ConfigError(f"module '{name}' cannot be imported:\n{''.join(shown).rstrip()}")


def _is_import_frame(file: str) -> bool:
    return file == __file__ or file.startswith("<frozen importlib")
