"""Flags of the planning commands, explain, search and plan."""

from absl import flags

from mtf_imaging.cli.config.setup import JobSetup
from mtf_imaging.errors import ConfigError
from mtf_imaging.planner.cost.hardware import HARDWARE, find_hardware


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
