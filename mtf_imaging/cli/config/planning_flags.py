"""Flags of the planning commands, explain, search, plan and bench."""

from absl import flags

from mtf_imaging.cli.config.setup import JobSetup
from mtf_imaging.errors import ConfigError
from mtf_imaging.jobs.settings import check_price
from mtf_imaging.planner.cost.hardware import HARDWARE, find_hardware

# A note of all commands with --price_per_hour.
TRAINING_COST = (
    "The hours of a training are train.num_steps times the time of a step. --price_per_hour is the price of one "
    "device; the cost is devices x hours x price. Start-up, waiting for data, evaluation and checkpoints are not "
    "included."
)


def define(values: flags.FlagValues) -> None:
    """Defines --hardware, --num_devices, --num_hosts and --data_dir."""
    define_hardware(values)
    flags.DEFINE_string("data_dir", None, "Folder of records or other data; sets the resolution.", flag_values=values)


def define_hardware(values: flags.FlagValues) -> None:
    """Defines --hardware, --num_devices and --num_hosts."""
    text = f"Kind of device: {', '.join(HARDWARE)}; or your own gin file (docs/guides/gpus.md)."
    flags.DEFINE_string("hardware", None, text, flag_values=values)
    flags.DEFINE_integer("num_devices", None, "Number of devices.", lower_bound=1, flag_values=values)
    text = "Number of hosts; each has the same number of devices."
    flags.DEFINE_integer("num_hosts", 1, text, lower_bound=1, flag_values=values)


def define_price(values: flags.FlagValues, more: str = "") -> None:
    """Defines --price_per_hour.

    Args:
      values: the flags of the command.
      more: a sentence to add to the help.
    """
    text = "Price of one device for one hour, in any currency; prints the cost of train.num_steps steps."
    flags.DEFINE_float("price_per_hour", None, f"{text} {more}".rstrip(), flag_values=values)


def checked_price(values: flags.FlagValues) -> float | None:
    """Returns the value of --price_per_hour, or None without it.

    Raises:
      ConfigError: the price is not a positive number.
    """
    check_price(values.price_per_hour)
    return values.price_per_hour


def hardware_files(name: str | None) -> list[str]:
    """Returns the gin file of --hardware as a list, which is empty for a known name.

    Raises:
      ConfigError: the name is not known.
    """
    if name is None or name.endswith(".gin"):
        return [name] if name else []
    find_hardware(name)
    return []


def check_devices(setup: JobSetup, num_devices: int | None) -> None:
    """Checks that the mesh of a setup has at most one processor per device.

    Raises:
      ConfigError: the mesh has more processors than there are devices.
    """
    if num_devices is not None and setup.parsed_layout.processors > num_devices:
        raise ConfigError(
            f"mesh {setup.mesh_shape} has {setup.parsed_layout.processors} processors, but --num_devices is "
            f"{num_devices}. Fix: give a smaller --mesh_shape, or leave --num_devices out for one device per processor."
        )
