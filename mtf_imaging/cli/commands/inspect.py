"""`mtf-imaging inspect`: prints what is understood of a data set, before anything is computed."""

import dataclasses
import json

from absl import flags

from mtf_imaging.cli.config.flags_of_settings import FlagSettings
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.plain_text import counted
from mtf_imaging.settings.data import InspectSettings
from mtf_imaging.settings.setting import setting, settings, values_of


@settings
class _Flags(InspectSettings):
    """The settings that the command has flags for.

    Attributes:
      path: the data set: a folder of volumes, photos or images with objects.
      json: whether to print all fields as JSON, with the files and facts of each case.
    """

    data_dir: str = setting(default="")
    path: tuple[str, ...] = setting(flag=True)
    json: bool = setting(default=False, flag=True)


SUMMARY = "prints what is understood of a data set: layout, grids, labels, faults."
EXAMPLE = "mtf-imaging inspect cases"
SETTINGS = (_Flags,)
WORDS = "path"


def run(values: flags.FlagValues) -> None:
    from mtf_imaging.jobs.inspecting import inspect

    if len(values.path) != 1:
        raise ConfigError(f"inspect takes one data set, not {len(values.path)}: {', '.join(values.path)}.")
    found = inspect(**values_of(InspectSettings, FlagSettings(values, _Flags), data_dir=values.path[0]))
    print(json.dumps(dataclasses.asdict(found), indent=1) if values.json else found.text())
    if found.faults:
        what, stop = counted(len(found.faults), "fault"), "stops" if len(found.faults) == 1 else "stop"
        raise DataError(f"{values.path[0]}: {what} {stop} convert, plan and train. Fix: see the rows UNUSABLE.")
