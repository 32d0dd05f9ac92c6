"""`mtf-imaging plan`: plans a training job for a data set and devices, and writes it as a gin file."""

import re
from pathlib import Path

from absl import flags

from mtf_imaging.cli.config import gin_config, planning_flags
from mtf_imaging.cli.config.flags_of_settings import FlagSettings
from mtf_imaging.cli.config.planning_flags import HardwareFlags
from mtf_imaging.cli.runtime.quiet import import_tensorflow
from mtf_imaging.errors import ConfigError
from mtf_imaging.settings.planning import PlanSettings
from mtf_imaging.settings.setting import setting, settings, values_of


@settings
class _Flags(HardwareFlags, PlanSettings):
    """The settings with flags in this command.

    Attributes:
      memory: memory of a device, for instance 40G. Default: the memory that `hardware` names.
      output: gin file to write.
      overwrite: whether to replace the gin file if it exists.
    """

    memory: str | None = setting(default=None, flag=True)
    output: str = setting(default="plan.gin", flag=True)
    overwrite: bool = setting(default=False, flag=True)


SUMMARY = "plans a training job for a data set and devices, and writes it as a gin file."
EXAMPLE = "mtf-imaging plan --data_dir cases --num_devices 4 --hardware a100 --output plan.gin"
SETTINGS = (_Flags,)
NOTES = (
    "plan reads all cases once and keeps their sizes, spacings, intensities and label frequencies in fingerprint.json "
    "next to the gin file, so that another plan takes seconds. It chooses the finest spacing whose whole volumes fit "
    "on the devices under some layout, or patches if these volumes need larger voxels than the data has. The gin file "
    "states the reason for each choice in a comment, and ends with the commands that convert, train and "
    "cross-validate.",
    "Memory and time are estimates; see search. To change a choice, edit the file.",
)
_MEMORY = re.compile(r"(?P<number>\d+(\.\d*)?|\.\d+)\s*(?P<unit>[MGT]?)(i?B)?", re.IGNORECASE)
_UNITS = {"M": 2**20, "": 2**30, "G": 2**30, "T": 2**40}


def run(values: flags.FlagValues) -> str:
    output = Path(values.output)
    if output.suffix != ".gin":
        raise ConfigError(f"--output {output}: must be a gin file. Fix: --output {output.with_suffix('.gin')}")
    if output.exists() and not values.overwrite:
        raise ConfigError(f"--output {output}: this file exists. Fix: choose another name, or add --overwrite.")
    memory = None if values.memory is None else parse_memory(values.memory)
    files = [gin_config.find_gin_file(name) for name in planning_flags.hardware_files(values.hardware)]
    import_tensorflow()
    from mtf_imaging.cli.runtime.plan_text import command_lines, gin_text, plan_table
    from mtf_imaging.data.fingerprint import FILE
    from mtf_imaging.files.atomic import write_bytes
    from mtf_imaging.jobs.planning import plan
    from mtf_imaging.models.unet3d import build_task

    gin_config.bind(files, [], {})
    own = {
        "hardware": planning_flags.hardware_of(values.hardware),
        "memory": memory,
        "fingerprint_file": output.with_name(FILE),
    }
    planned = plan(**values_of(PlanSettings, FlagSettings(values, _Flags), task=build_task, **own))
    lines = command_lines(planned, values.data_dir, output, values.spacing_csv)
    write_bytes(output, gin_text(planned, values.data_dir, lines).encode())
    print(plan_table(planned))
    print(f"\nPlan: {output}, with the reason for each choice")
    return lines["convert"]


def parse_memory(text: str) -> float:
    """Returns the bytes of a --memory such as 40G, 40GiB or 40; a number without a unit is in GiB.

    >>> parse_memory("40G") == parse_memory("40 GiB") == parse_memory("40") == 40 * 2**30
    True

    Raises:
      ConfigError: the text is not a positive size.
    """
    match = _MEMORY.fullmatch(text.strip())
    if match is None or not float(match["number"]) > 0:
        raise ConfigError(f"--memory {text}: is not a size. Fix: give the memory of a device, for instance 40G.")
    return float(match["number"]) * _UNITS[match["unit"].upper()]
