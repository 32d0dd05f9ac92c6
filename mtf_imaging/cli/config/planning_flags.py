"""Flags of the commands that plan: explain and search."""

from absl import flags

from mtf_imaging.cli.config.setup import JobSetup
from mtf_imaging.errors import ConfigError
from mtf_imaging.planner.cost.hardware import HARDWARE, find_hardware


def define(values: flags.FlagValues) -> None:
    """Defines --hardware, --num_devices and --data_dir."""
    text = f"The devices: {', '.join(HARDWARE)}; or a gin file of your own (docs/concepts/layouts.md)."
    flags.DEFINE_string("hardware", None, text, flag_values=values)
    flags.DEFINE_integer("num_devices", None, "How many devices there are.", lower_bound=1, flag_values=values)
    flags.DEFINE_string("data_dir", None, "Records, or other data, whose resolution is meant.", flag_values=values)


def hardware_files(name: str | None) -> list[str]:
    """The gin file that --hardware names, if it is one; any other name is checked at once.

    Raises:
      ConfigError: a name that is not known.
    """
    if name is None or name.endswith(".gin"):
        return [name] if name else []
    find_hardware(name)
    return []


def check_devices(setup: JobSetup, num_devices: int | None) -> None:
    """Checks that the mesh of a setup can be spread over that many devices.

    Raises:
      ConfigError: more processors than devices.
    """
    if num_devices is not None and setup.parsed_layout.processors > num_devices:
        raise ConfigError(
            f"mesh {setup.mesh_shape} has {setup.parsed_layout.processors} processors, and --num_devices is "
            f"{num_devices}. Fix: a smaller --mesh_shape; or leave --num_devices out, for one device a processor."
        )
