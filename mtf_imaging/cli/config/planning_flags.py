"""Flags of the planning commands, explain, search, plan and bench, and the gin configurable `hardware`."""

import inspect
import logging
from collections.abc import Iterable
from pathlib import Path

import gin
from absl import flags

from mtf_imaging.cli.config.setup import JobSetup
from mtf_imaging.cli.config.setup_flags import Configuration
from mtf_imaging.cli.runtime.quiet import import_tensorflow
from mtf_imaging.errors import ConfigError
from mtf_imaging.files.run_folder import CONFIG
from mtf_imaging.planner.cost.hardware import HARDWARE, Hardware, find_hardware
from mtf_imaging.settings.planning import HardwareSettings
from mtf_imaging.settings.setting import Settings, changed, setting, settings

_logger = logging.getLogger(__name__)
_own_hardware = gin.external_configurable(Hardware, "hardware", module="mtf_imaging")

# A note for all commands with --price_per_hour.
TRAINING_COST = (
    "A training run takes train.num_steps times the step time. --price_per_hour is the price of one device; the cost "
    "is devices x hours x price. Start-up, waiting for data, evaluation and checkpoints are not included."
)

# A note for the commands that plan one step.
PATCH = (
    "With --patch, or train.patch in a gin file, a step trains on a batch of patches; --resolution, or the data, "
    "gives the size of the images. --max_resolution of search finds the largest image, or the largest patch."
)


@settings
class JobFolders(Settings):
    """The folders from which a job is read.

    Attributes:
      data_dir: records folder or other data; sets the resolution.
      model_dir: folder of a run; its config.gin is the job.
    """

    data_dir: str | None = setting(default=None, flag=True)
    model_dir: str | None = setting(default=None, flag=True)


@settings
class HardwareFlags(HardwareSettings):
    """The devices for which a job is planned."""

    hardware: str = changed(
        HardwareSettings,
        "hardware",
        meaning=f"kind of device: {', '.join(HARDWARE)}; or your own gin file (docs/guides/gpus.md)",
    )


def configuration_of(values: flags.FlagValues, more_files: Iterable[str] = ()) -> Configuration:
    """Returns the configuration of a planned job: that of the run in --model_dir, or the flags.

    Args:
      values: the parsed flags.
      more_files: gin files to read last.

    Raises:
      ConfigError, LayoutError: the same as in `Configuration`; or --model_dir has no configuration, even with a job.
    """
    saved = Path(values.model_dir) / CONFIG if values.model_dir else None
    if saved and not saved.is_file():
        raise ConfigError(
            f"--model_dir {values.model_dir}: has no {CONFIG}, the configuration of a run. Fix: give the folder of a "
            "run, or a job with --gin_file."
        )
    plan_one_fold(values)
    job = None if saved else "unet3d_demo"
    return Configuration(values, saved, job, needs_job=saved is not None, more_files=more_files, trains=True)


def plan_one_fold(values: flags.FlagValues) -> None:
    """Sets --network to the first fold of a model with several folds, whose costs are equal.

    Raises:
      DataError: the file does not exist.
    """
    if values.network:
        import_tensorflow()
        from mtf_imaging.cli.config.imported_network import trained_networks

        networks, given = trained_networks(Path(values.network)), values.network
        values.network = str(networks[0])
        if len(networks) > 1:
            text = "--network %s: the costs of one of %d folds; predict computes them all, one after the other"
            _logger.info(text, given, len(networks))


def hardware_files(name: str | None) -> list[str]:
    """Returns the gin file of --hardware as a list, which is empty for a known name.

    Raises:
      ConfigError: the name is unknown.
    """
    if name is None or name.endswith(".gin"):
        return [name] if name else []
    find_hardware(name)
    return []


def hardware_of(name: str | None) -> Hardware | None:
    """Returns the hardware that --hardware names, or None if the flag is not given.

    Args:
      name: a known name, or a gin file that is already bound.

    Raises:
      ConfigError: the file does not bind all required fields.
    """
    if name is None or not name.endswith(".gin"):
        return name and find_hardware(name)
    bound = gin.get_bindings("mtf_imaging.hardware")
    needed = [p.name for p in inspect.signature(Hardware).parameters.values() if p.default is p.empty]
    missing = [f"hardware.{field}" for field in needed if field not in bound]
    if missing:
        raise ConfigError(
            f"--hardware {name}: does not bind {', '.join(missing)}. Fix: add a line {missing[0]} = VALUE."
        )
    return _own_hardware()


def check_devices(setup: JobSetup, num_devices: int | None) -> None:
    """Checks that the mesh of a setup has at most one processor per device.

    Raises:
      ConfigError: the mesh has more processors than there are devices.
    """
    at_once = setup.parsed_layout.processors // setup.parsed_layout.turns
    if num_devices is not None and at_once > num_devices:
        turns = " in a turn" if setup.parsed_layout.sequential else ""
        raise ConfigError(
            f"mesh {setup.mesh_shape} has {at_once} processors{turns}, but --num_devices is "
            f"{num_devices}. Fix: give a smaller --mesh_shape, or leave --num_devices out for one device per processor."
        )
