"""`mtf-imaging explain`: reports the costs of a layout, or why it is illegal, without using a device."""

import json
import sys
from pathlib import Path

from absl import flags

from mtf_imaging.cli.config import planning_flags
from mtf_imaging.cli.config.planning_flags import HardwareFlags, JobFolders
from mtf_imaging.cli.runtime.quiet import import_tensorflow
from mtf_imaging.errors import ConfigError
from mtf_imaging.settings.patches import PatchSetting
from mtf_imaging.settings.planning import PredictionCostSetting, RecipeSettings
from mtf_imaging.settings.setting import changed, setting, settings


@settings
class _Flags(HardwareFlags, JobFolders, PatchSetting, PredictionCostSetting, RecipeSettings):
    """The settings with flags in this command.

    Attributes:
      num_devices: number of devices.
      verbose: whether to show every operation.
      json: whether to print everything as JSON.
      picture: PNG file to draw: the slices, a halo, and device memory.
    """

    hardware: str | None = changed(HardwareFlags, "hardware", default=None)
    num_devices: int | None = changed(HardwareFlags, "num_devices", default=None)
    verbose: bool = setting(default=False, flag=True)
    json: bool = setting(default=False, flag=True)
    picture: str | None = setting(default=None, flag=True)


SUMMARY = "estimates the memory, exchanges and time of a layout, or lists its faults."
EXAMPLE = "mtf-imaging explain --gin_file unet3d_lits --resolution 512 --hardware h200 --picture layout.png"
SETTINGS = (_Flags,)
WITHOUT = ("xla",)
NOTES = (
    "The numbers come from a model of one training step. Memory and exchanges follow from the geometry of the layout; "
    "times follow from a few properties of the hardware, which are printed. To measure a step, run bench.",
    "explain assumes one device per processor, or one device for all processors with --mesh_impl stacked. With "
    "--num_hosts, auto is collective.",
    planning_flags.PATCH,
    planning_flags.TRAINING_COST,
)


def records_spacing(data_dir: str | None) -> str | None:
    """Returns the voxel size of records, in the format of --spacing; None for other data."""
    from mtf_imaging.data.records.manifest import read_manifest
    from mtf_imaging.data.sampling.sampling import format_spacing

    manifest = None if data_dir is None else read_manifest(data_dir)
    return None if manifest is None else format_spacing(manifest.sampling.spacing)


def run(values: flags.FlagValues) -> str | None:
    if values.picture is not None and Path(values.picture).suffix.lower() != ".png":
        raise ConfigError(
            f"--picture {values.picture}: only PNG files are written. Fix: --picture {Path(values.picture).stem}.png"
        )
    configuration = planning_flags.configuration_of(values, planning_flags.hardware_files(values.hardware))
    import_tensorflow()
    from mtf_imaging.cli.config.training_settings import bound_step, planned_num_steps
    from mtf_imaging.data.sampling.sampling import parse_spacing
    from mtf_imaging.jobs.explaining import picture_of
    from mtf_imaging.jobs.steps.costs import explain_step, volume_of
    from mtf_imaging.planner.cost.recipe import Recipe
    from mtf_imaging.planner.render import as_json
    from mtf_imaging.planner.render import text as report
    from mtf_imaging.planner.render.picture import write_picture

    setup = configuration.bind()
    planning_flags.check_devices(setup, values.num_devices)
    step, image = bound_step(setup, values.data_dir)
    hardware = planning_flags.hardware_of(values.hardware)
    recipe = Recipe(planned_num_steps(), values.price_per_hour)
    image = image._replace(spacing=parse_spacing(setup.spacing or records_spacing(values.data_dir)))
    devices = setup.parsed_layout, hardware, values.num_hosts, setup.mesh_impl
    explained = explain_step(step, *devices, recipe, image, values.predict)
    if values.json:
        print(json.dumps(as_json.as_dict(explained), indent=1))
    else:
        print(report.text(explained, values.verbose, report.use_colors()))
    if values.picture is not None:
        write_picture(values.picture, picture_of(explained, volume_of(step)))
        print(f"\nPicture: {values.picture}", file=sys.stderr if values.json else sys.stdout)
    return None if values.json else "mtf-imaging search ranks the layouts of this job, and bench measures them"
