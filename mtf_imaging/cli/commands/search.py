"""`mtf-imaging search`: ranks the layouts for some devices, or finds the largest cube that fits."""

from absl import flags

from mtf_imaging.cli.config import planning_flags, setup_flags
from mtf_imaging.cli.config.planning_flags import HardwareFlags, JobFolders
from mtf_imaging.cli.runtime.quiet import import_tensorflow
from mtf_imaging.settings.patches import PatchSetting
from mtf_imaging.settings.planning import RecipeSettings
from mtf_imaging.settings.setting import changed, setting, settings


@settings
class _Flags(HardwareFlags, PatchSetting, RecipeSettings):
    """The settings with flags in this command.

    Attributes:
      memory_limit: memory of a device that tensors may take, in GiB. Default: 75% of its memory, or the value in its
        gin file.
      top: number of rows to show; layouts that differ only by swapped axes share a row.
      max_resolution: whether to find the largest cube instead, and the largest cube if processors take turns.
    """

    data_dir: str | None = changed(JobFolders, "data_dir")
    memory_limit: float | None = setting(default=None, above=0, unit="GiB", flag=True)
    top: int = setting(default=10, least=1, flag=True)
    max_resolution: bool = setting(default=False, flag=True)


SUMMARY = "ranks the layouts for some devices, or finds the largest cube that fits."
EXAMPLE = "mtf-imaging search --num_devices 8 --hardware a100 --gin_file unet3d_lits --resolution 256 --batch_size 4"
SETTINGS = (_Flags,)
WITHOUT = ("input_partition_dims", "num_cores_per_replica", "xla")
NOTES = (
    "search places one processor on each device. Its layouts split the batch and the dimensions of the image. If none "
    "fits, processors take turns on each device, as few as possible (docs/concepts/turns.md). To estimate the "
    "cost of one layout, run explain; to measure it, run bench.",
    planning_flags.PATCH,
    planning_flags.TRAINING_COST,
)
IDLE = dict.fromkeys(("mesh_shape", "layout", "sequential"), "search tries all layouts for --num_devices devices.")


def run(values: flags.FlagValues) -> str:
    files = planning_flags.hardware_files(values.hardware)
    planning_flags.plan_one_fold(values)
    configuration = setup_flags.Configuration(values, job="unet3d_demo", more_files=files, trains=True)
    import_tensorflow()
    from mtf_imaging.cli.config.training_settings import bound_step, planned_num_steps
    from mtf_imaging.cli.runtime.search_report import largest_text, ranking_text
    from mtf_imaging.jobs.searching import PlannedDevices, largest_cube_in_turns_of, largest_cube_of, search_step
    from mtf_imaging.planner.cost.recipe import Recipe

    setup = configuration.bind()
    limit = None if values.memory_limit is None else values.memory_limit * 2**30
    sizes = (16, 16, 16) if values.max_resolution else None  # arbitrary sizes; only the number of dimensions matters
    step = bound_step(setup, values.data_dir, sizes).step
    hardware = planning_flags.hardware_of(values.hardware)
    hosts = values.num_hosts, setup.mesh_impl
    devices = PlannedDevices(values.num_devices, hardware, limit, *hosts, setup.offload_dir)
    recipe = Recipe(planned_num_steps(), values.price_per_hour)
    if values.max_resolution:
        at_once, in_turns = largest_cube_of(step, devices), largest_cube_in_turns_of(step, devices)
        print(largest_text(at_once, in_turns, step, devices, recipe))
    else:
        print(ranking_text(search_step(step, devices), step, devices, values.top, recipe))
    return "mtf-imaging explain reports all costs of one layout, and bench measures it"
