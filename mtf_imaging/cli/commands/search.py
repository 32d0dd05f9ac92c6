"""`mtf-imaging search`: the layouts that some devices allow, ranked; or the largest cube that they can train on."""

import dataclasses

from absl import flags

from mtf_imaging.cli.config import planning_flags, setup_flags
from mtf_imaging.cli.runtime.quiet import import_tensorflow
from mtf_imaging.errors import ConfigError

SUMMARY = "ranks the layouts that some devices allow, by a model; or finds the largest cube that they can train on."
EXAMPLE = "mtf-imaging search --num_devices 8 --hardware a100 --gin_file unet3d_lits --resolution 256 --batch_size 4"
REQUIRED = ("num_devices", "hardware")
NOTES = (
    "search uses all devices, one processor each. Its layouts split the batch and the image's dimensions. Estimate the "
    "cost of a layout with explain; measure it with bench.",
)
IDLE = dict.fromkeys(("mesh_shape", "layout", "mesh_impl"), "search tries all layouts for --num_devices devices.")


def define_flags(values: flags.FlagValues) -> None:
    planning_flags.define(values)
    flags.DEFINE_float(
        "memory_limit",
        None,
        "GiB of a device that tensors may take; default: 75% of what the hardware has, or as its gin file says.",
        flag_values=values,
    )
    flags.DEFINE_integer("top", 10, "How many layouts to show.", lower_bound=1, flag_values=values)
    flags.DEFINE_bool("max_resolution", False, "Find the largest cube, instead.", flag_values=values)
    setup_flags.define(values, without=["cluster", "input_partition_dims"])


def run(values: flags.FlagValues) -> None:
    if values.memory_limit is not None and not values.memory_limit > 0:
        raise ConfigError(f"--memory_limit={values.memory_limit:g}: must be above 0 GiB.")
    files = planning_flags.hardware_files(values.hardware)
    configuration = setup_flags.Configuration(values, job="unet3d_demo", more_files=files)
    import_tensorflow()
    from mtf_imaging.jobs import plan as planning
    from mtf_imaging.jobs.search import Searching

    setup = configuration.bind()
    hardware = planning.hardware_of(values.hardware)
    memory = hardware.memory * hardware.usable if values.memory_limit is None else values.memory_limit * 2**30
    data_dir = values.data_dir
    if values.max_resolution and setup.resolution is None and data_dir is None:
        setup = dataclasses.replace(setup, resolution=16)  # any: only the number of dimensions matters
    searching = Searching(planning.Planned.bound(setup, data_dir), hardware, memory, values.num_devices)
    if values.max_resolution:
        searching.print_largest()
    else:
        searching.print_ranking(values.top)
