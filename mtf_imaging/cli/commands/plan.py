"""`mtf-imaging plan`: plans a training job for a data set and devices, and writes it as a gin file."""

import re
from pathlib import Path

from absl import flags

from mtf_imaging.cli.config import gin_config, planning_flags, setup_flags
from mtf_imaging.cli.runtime.next_step import after_plan
from mtf_imaging.cli.runtime.quiet import import_tensorflow
from mtf_imaging.errors import ConfigError

SUMMARY = "plans a training job for a data set and devices, and writes it as a gin file."
EXAMPLE = "mtf-imaging plan --data_dir cases --num_devices 4 --hardware a100 --output plan.gin"
REQUIRED = ("data_dir", "num_devices", "hardware")
NOTES = (
    "plan reads all cases once and keeps their sizes, spacings, intensities and label frequencies in fingerprint.json "
    "next to the gin file, so that another plan takes seconds. It chooses the finest spacing whose whole volumes fit "
    "on the devices under some layout. The gin file states the reason for each choice in a comment, and ends with the "
    "commands that convert, train and cross-validate.",
    "Memory and time are estimates; see search. To change a choice, edit the file.",
)
_MEMORY = re.compile(r"(?P<number>\d+(\.\d*)?|\.\d+)\s*(?P<unit>[MGT]?)(i?B)?", re.IGNORECASE)
_UNITS = {"M": 2**20, "": 2**30, "G": 2**30, "T": 2**40}


def define_flags(values: flags.FlagValues) -> None:
    text = "Folder of labeled cases, as for convert."
    flags.DEFINE_string("data_dir", None, text, flag_values=values)
    planning_flags.define_hardware(values)
    text = "Memory of a device, for instance 40G; default: that of the hardware."
    flags.DEFINE_string("memory", None, text, flag_values=values)
    flags.DEFINE_string("output", "plan.gin", "Gin file to write.", flag_values=values)
    flags.DEFINE_bool("overwrite", False, "Replace the gin file if it exists.", flag_values=values)
    setup_flags.define_spacing_csv(values)
    flags.DEFINE_integer(
        "workers",
        None,
        "Number of processes that read cases; each takes up to 2 GiB for a volume of 512 x 512 x 800 voxels. Default: "
        "one per core, or fewer if memory is short.",
        lower_bound=1,
        flag_values=values,
    )


def run(values: flags.FlagValues) -> str | None:
    output = Path(values.output)
    if output.suffix != ".gin":
        raise ConfigError(f"--output {output}: must be a gin file. Fix: --output {output.with_suffix('.gin')}")
    if output.exists() and not values.overwrite:
        raise ConfigError(f"--output {output}: this file exists. Fix: choose another name, or add --overwrite.")
    memory = None if values.memory is None else parse_memory(values.memory)
    files = [gin_config.find_gin_file(name) for name in planning_flags.hardware_files(values.hardware)]
    import_tensorflow()
    from mtf_imaging.cli.config.hardware import hardware_of
    from mtf_imaging.cli.runtime.plan_text import command_lines, gin_text, plan_table
    from mtf_imaging.data.fingerprint import FILE
    from mtf_imaging.files.atomic import write_bytes
    from mtf_imaging.jobs.planning import plan
    from mtf_imaging.models.unet3d import build_task

    gin_config.bind(files, [], {})
    planned = plan(
        task=build_task,
        data_dir=values.data_dir,
        num_devices=values.num_devices,
        hardware=hardware_of(values.hardware),
        memory=memory,
        num_hosts=values.num_hosts,
        fingerprint_file=output.with_name(FILE),
        spacing_table=values.spacing_csv,
        workers=values.workers,
    )
    lines = command_lines(planned, values.data_dir, output, values.spacing_csv)
    write_bytes(output, gin_text(planned, values.data_dir, lines).encode())
    print(plan_table(planned))
    print(f"\nPlan: {output}, with the reason for each choice")
    return after_plan(lines["convert"])


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
