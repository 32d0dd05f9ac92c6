"""`mtf-imaging explain`: what a layout costs, and whether it can be, before any device is used."""

import json
import sys
from pathlib import Path

from absl import flags

from mtf_imaging.cli.config import planning_flags, setup_flags
from mtf_imaging.cli.runtime.quiet import import_tensorflow
from mtf_imaging.errors import ConfigError
from mtf_imaging.files.run_folder import CONFIG

SUMMARY = "shows what a layout costs in memory, exchange and time, or all that is wrong with it; uses no device."
EXAMPLE = "mtf-imaging explain --gin_file unet3d_lits --resolution 512 --hardware h200 --picture layout.png"
REQUIRED = ()
NOTES = (
    "The figures are of a model of one training step: what is sent and held follows from the geometry that the step is "
    "lowered by; times follow from a few numbers of the hardware, which are printed. bench measures.",
)
IDLE = {"mesh_impl": "explain assumes one device per processor."}


def define_flags(values: flags.FlagValues) -> None:
    planning_flags.define(values)
    flags.DEFINE_string("model_dir", None, "Folder of a run, whose config.gin is read.", flag_values=values)
    flags.DEFINE_bool("verbose", False, "Show every operation.", flag_values=values)
    flags.DEFINE_bool("json", False, "Print everything as JSON.", flag_values=values)
    flags.DEFINE_string("picture", None, "A PNG to draw: slices, a halo, the memory of a device.", flag_values=values)
    setup_flags.define(values, without=["cluster"])


def run(values: flags.FlagValues) -> None:
    if values.picture is not None and Path(values.picture).suffix.lower() != ".png":
        raise ConfigError(f"--picture {values.picture}: it is a PNG. Fix: --picture {Path(values.picture).stem}.png")
    configuration = setup_flags.Configuration(
        values,
        values.model_dir and Path(values.model_dir) / CONFIG,
        job="unet3d_demo",
        more_files=planning_flags.hardware_files(values.hardware),
    )
    import_tensorflow()
    from mtf_imaging.cli.config.hardware import hardware_of
    from mtf_imaging.cli.config.training_settings import bound_step
    from mtf_imaging.jobs.explaining import explain_step, picture_of, volume_of
    from mtf_imaging.planner.render import as_json
    from mtf_imaging.planner.render import text as report
    from mtf_imaging.planner.render.picture import write_picture

    setup = configuration.bind()
    planning_flags.check_devices(setup, values.num_devices)
    step = bound_step(setup, values.data_dir)
    explained = explain_step(step, setup.parsed_layout, hardware_of(values.hardware))
    if values.json:
        print(json.dumps(as_json.as_dict(explained), indent=1))
    else:
        print(report.text(explained, values.verbose, report.use_colors()))
    if values.picture is not None:
        write_picture(values.picture, picture_of(explained, volume_of(step)))
        print(f"\nPicture: {values.picture}", file=sys.stderr if values.json else sys.stdout)
