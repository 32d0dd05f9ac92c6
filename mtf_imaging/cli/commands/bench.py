"""`mtf-imaging bench`: measures a training step under several layouts and compares it with explain."""

import json
from pathlib import Path

from absl import flags

from mtf_imaging.cli.config import planning_flags, setup_flags
from mtf_imaging.cli.config.bench_setups import parse_setup
from mtf_imaging.cli.config.planning_flags import JobFolders
from mtf_imaging.cli.runtime.quiet import import_tensorflow
from mtf_imaging.errors import ConfigError, MtfImagingError
from mtf_imaging.files.run_folder import CONFIG
from mtf_imaging.settings.patches import PatchSetting
from mtf_imaging.settings.planning import BenchSettings, RecipeSettings
from mtf_imaging.settings.setting import changed, setting, settings


@settings
class _Flags(JobFolders, PatchSetting, RecipeSettings):
    """The settings with flags in this command.

    Attributes:
      setup: MESH/LAYOUT, for instance rows:2,cols:2/x:rows,y:cols; / for one processor; or a layout file, as 4x4; may
        be repeated. Default: one processor, and the layout of the job.
      json: whether to print everything as JSON.
    """

    setup: tuple[str, ...] | None = setting(default=None, flag=True)
    steps: int = changed(BenchSettings, "steps")
    json: bool = setting(default=False, flag=True)


SUMMARY = "measures training steps under several layouts and compares them with explain."
EXAMPLE = "mtf-imaging bench --gin_file unet3d_demo --resolution 64 --setup / --setup 4x4 --setup rows:2/x:rows"
SETTINGS = (_Flags,)
WITHOUT = ()
NOTES = (
    "Each setup runs in its own process. The setups take turns, one step each, on random images. Every setup must "
    "compute the same first loss and gradient: the exit code is 1 if they differ, or if no setup can be measured. "
    "Setups that are illegal or need too much memory are reported, and the others are measured.",
    planning_flags.PATCH,
    planning_flags.TRAINING_COST,
)
_OTHER_WAYS = ("mesh_shape", "layout", "input_partition_dims")


def run(values: flags.FlagValues) -> str | None:
    given = [f"--{name}" for name in _OTHER_WAYS if values[name].value is not None]
    if values.setup and given:
        mesh, layout = values.mesh_shape or "MESH", values.layout or "LAYOUT"
        raise ConfigError(
            f"{' and '.join(given)} cannot be combined with --setup, which contains a mesh and a layout. Fix: --setup "
            f"'{mesh}/{layout}' instead of {' and '.join(given)}."
        )
    price = planning_flags.checked_price(values)
    setups = [parse_setup(text) for text in values.setup or []]
    configuration = setup_flags.Configuration(
        values, values.model_dir and Path(values.model_dir) / CONFIG, job="unet3d_demo", trains=True
    )
    import_tensorflow()
    from mtf_imaging.cli.config.training_settings import bound_step, planned_num_steps
    from mtf_imaging.jobs.benching import as_setup, bench_step
    from mtf_imaging.jobs.explaining import planned_recipe
    from mtf_imaging.planner.bench.subject import Setup
    from mtf_imaging.planner.bench.table import as_dict, text

    setup = configuration.bind()
    step = bound_step(setup, values.data_dir).step
    if not setups and setup.parsed_layout.processors > 1:
        setups = [parse_setup("/"), as_setup(setup.parsed_layout)]
    recipe = planned_recipe(planned_num_steps(), price)
    bench = bench_step(step, [Setup(*named) for named in setups], values.steps, setup.mesh_impl, recipe=recipe)
    print(json.dumps(as_dict(bench), indent=1) if values.json else text(bench))
    if not bench.equal:
        raise MtfImagingError("\n".join(["results depend on the layout, but they must not:", *bench.differences]))
    if all(row.error is not None for row in bench.rows):
        raise MtfImagingError("no setup could be measured. The table above shows the reasons.")
    return None if values.json else "mtf-imaging train with the mesh and layout of the fastest setup"
