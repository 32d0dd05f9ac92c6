"""What a message says on the command line: its log lines, and the flags of the settings that it names.

Messages name keyword arguments (`MtfImagingError.settings`), so that they read the same in a notebook.
"""

import logging
import sys
from collections.abc import Iterable

from tqdm import tqdm

from mtf_imaging.cli.commands.all_commands import COMMANDS, flags_of, load
from mtf_imaging.cli.config.groups import examples
from mtf_imaging.settings import data, inference, planning, step, training
from mtf_imaging.settings.setting import Settings, settings_of

_NAME = "mtf_imaging"
_CLASSES = (data, inference, planning, step, training)
# {setting: its flag}, if the flag has another name
FLAGS = {
    one.name: one.flag
    for module in _CLASSES
    for cls in vars(module).values()
    if isinstance(cls, type) and issubclass(cls, Settings)
    for one in settings_of(cls)
    if one.flag not in ("", one.name)
}
# {setting without a flag: its gin parameter with an example value, quoted for a shell}
PARAMETERS = {**examples(), "dtype": """job.dtype='"DTYPE"'"""}  # messages need different dtypes
# {setting: a note that replaces the flag}
NOTES = {
    "hardware": "--hardware (for instance h200, or a gin file; see docs/guides/gpus.md)",
    "task": "job.task in a --gin_file (the config.gin of a run already contains it)",
}


def on_the_command_line(settings: Iterable[str], command: str | None = None) -> str:
    """Returns the line that names the flags for some settings.

    Args:
      settings: names of keyword arguments, as in `MtfImagingError.settings`.
      command: the command that runs; flags that it lacks, or that have no effect on it, are left out. None for all
        flags.

    Returns:
      A line such as "On the command line: --batch_size, --layout.", or "" if the settings have no flags.
    """
    known = _flags_with_effect(command) if command in COMMANDS else None
    ways = [way for setting in settings for way in _ways(setting, known)]
    return f"On the command line: {', '.join(ways)}." if ways else ""


def _ways(setting: str, known: set[str] | None) -> list[str]:
    if setting in NOTES:
        return [NOTES[setting]]
    if setting in PARAMETERS:
        binding = PARAMETERS[setting]
        return [f"--gin.{binding}"] if _is_configurable(binding.partition(".")[0]) else []
    flag = FLAGS.get(setting, setting)
    return [f"--{flag}"] if known is None or flag in known else []


def _flags_with_effect(command: str) -> set[str]:
    module = load(command)
    return {*flags_of(module)} - {*getattr(module, "IDLE", ())}


def _is_configurable(name: str) -> bool:
    """Returns whether gin has registered a name; each command imports only the modules that it needs."""
    import gin  # imported here, because most command lines do not need gin

    try:
        gin.get_configurable(name)
    except ValueError:
        return False
    return True


class _AboveBars(logging.Handler):
    """Writes log lines to stderr above the progress bars there.

    If a record has `settings`, as an `MtfImagingError` has, a second line names their flags.
    """

    def emit(self, record):
        lines = [self.format(record), on_the_command_line(getattr(record, "settings", ()))]
        tqdm.write("\n".join(filter(None, lines)), file=sys.stderr)


def show(level: int = logging.INFO) -> None:
    """Writes log records to stderr: the package's from `level` up, and other libraries' from WARNING up."""
    logger = logging.getLogger(_NAME)
    if not logger.handlers:
        logger.addHandler(_AboveBars())
        logger.setLevel(level)
    root = logging.getLogger()
    if not root.handlers:  # otherwise absl adds a handler during a run that writes our lines a second time
        others = _AboveBars(logging.WARNING)
        others.addFilter(lambda record: not record.name.startswith(_NAME))
        root.addHandler(others)
