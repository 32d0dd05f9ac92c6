"""The folder of a study, whose runs share their settings."""

import json
from pathlib import Path

from mtf_imaging.errors import ConfigError
from mtf_imaging.files import lock
from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.files.json_file import read_object
from mtf_imaging.files.partial import is_partial

_SETTINGS = "study.json"


def keep_settings(out: Path, settings: dict, added: str) -> None:
    """Saves the settings of a study, or compares them with the settings already saved in its folder.

    Args:
      out: the folder.
      settings: the settings that all runs of the study share, as a JSON object.
      added: the things that can be added to a study, for the message.

    Raises:
      ConfigError: the folder contains a study with other settings, or other files.
    """
    path = out / _SETTINGS
    if not path.is_file():
        others = out.iterdir() if out.is_dir() else ()  # a killed study leaves unfinished files
        if not all(is_partial(path) or path.name == lock.NAME for path in others):
            raise ConfigError(
                f"{out}: contains files that are not part of a study. Fix: give a new or empty folder as output_dir.",
                ["output_dir"],
            )
        write_bytes(path, (json.dumps(settings, indent=1) + "\n").encode())
        return
    saved = read_object(path, "give another output_dir")
    for name, value in settings.items():
        if saved.get(name) != value:
            raise ConfigError(
                f"{out}: contains a study with {name} {saved.get(name)}, but {value} is given. "
                f"Fix: give the same value, or another output_dir. Only {added} can be added.",
                [name, "output_dir"],
            )
