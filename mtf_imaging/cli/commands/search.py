"""`mtf-imaging search`: the layouts that some devices allow, ranked; or the largest cube that they can train on."""

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
    from mtf_imaging.cli.config.hardware import hardware_of
    from mtf_imaging.cli.config.training_settings import bound_step
    from mtf_imaging.cli.runtime.search_report import largest_text, ranking_text
    from mtf_imaging.jobs.searching import largest_cube_of, search_step, usable_memory

    setup = configuration.bind()
    hardware = hardware_of(values.hardware)
    limit = None if values.memory_limit is None else values.memory_limit * 2**30
    sizes = (16, 16, 16) if values.max_resolution else None  # any: only the number of dimensions matters
    step = bound_step(setup, values.data_dir, sizes)
    devices = values.num_devices, hardware, limit
    on = values.num_devices, hardware, usable_memory(hardware, limit)
    if values.max_resolution:
        print(largest_text(largest_cube_of(step, *devices), step, *on))
    else:
        print(ranking_text(search_step(step, *devices), step, *on, values.top))
