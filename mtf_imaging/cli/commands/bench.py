"""`mtf-imaging bench`: measures a training step under several layouts and compares it with explain."""

import json
from pathlib import Path

from absl import flags

from mtf_imaging.cli.config import planning_flags
from mtf_imaging.cli.config.gin_config import find_gin_file
from mtf_imaging.cli.config.gin_text import read_gin_text
from mtf_imaging.cli.config.planning_flags import JobFolders
from mtf_imaging.cli.runtime.quiet import import_tensorflow
from mtf_imaging.engine.layout import ONE_PROCESSOR, Layout
from mtf_imaging.errors import ConfigError, MtfImagingError
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
_ONE_PROCESSOR_NAME = "one processor"
_FORM = "give --setup MESH/LAYOUT (rows:2,cols:2/x:rows,y:cols), --setup / (one processor) or a layout file (4x4)"
_BOUND = ("mesh_shape", "layout")
_OTHER_WAYS = ("mesh_shape", "layout", "input_partition_dims")


def run(values: flags.FlagValues) -> str | None:
    given = [f"--{name}" for name in _OTHER_WAYS if values[name].value is not None]
    if values.setup and given:
        mesh, layout = values.mesh_shape or "MESH", values.layout or "LAYOUT"
        raise ConfigError(
            f"{' and '.join(given)} cannot be combined with --setup, which contains a mesh and a layout. Fix: --setup "
            f"'{mesh}/{layout}' instead of {' and '.join(given)}."
        )
    setups = [parse_setup(text) for text in values.setup or []]
    configuration = planning_flags.configuration_of(values)
    import_tensorflow()
    from mtf_imaging.cli.config.training_settings import bound_step, planned_num_steps
    from mtf_imaging.jobs.benching import as_setup, bench_step
    from mtf_imaging.planner.bench.subject import Setup
    from mtf_imaging.planner.bench.table import as_dict, text
    from mtf_imaging.planner.cost.recipe import Recipe

    setup = configuration.bind()
    step = bound_step(setup, values.data_dir).step
    if not setups and setup.parsed_layout.processors > 1:
        setups = [parse_setup("/"), as_setup(setup.parsed_layout)]
    recipe = Recipe(planned_num_steps(), values.price_per_hour)
    bench = bench_step(step, [Setup(*named) for named in setups], values.steps, setup.mesh_impl, recipe=recipe)
    print(json.dumps(as_dict(bench), indent=1) if values.json else text(bench))
    if not bench.equal:
        raise MtfImagingError("\n".join(["results depend on the layout, but they must not:", *bench.differences]))
    if all(row.error is not None for row in bench.rows):
        raise MtfImagingError("no setup could be measured. The table above shows the reasons.")
    return None if values.json else "mtf-imaging train with the mesh and layout of the fastest setup"


def parse_setup(text: str) -> tuple[str, Layout]:
    """Parses the value of one --setup; returns a name for tables, and the layout.

    Raises:
      ConfigError: the text has neither format, or the gin file is not a layout file.
      LayoutError: the mesh or the layout is not valid.

    >>> parse_setup("rows:2 / x:rows")
    ('rows:2/x:rows', Layout(mesh_shape=(('rows', 2),), rules=(('x', 'rows'),), sequential=()))
    >>> parse_setup("/")[0]
    'one processor'
    """
    stripped = text.strip()
    if stripped in ("", "/", "single"):
        return _ONE_PROCESSOR_NAME, ONE_PROCESSOR
    if ":" not in stripped or stripped.endswith(".gin"):
        return _read_layout_file(stripped)
    mesh_shape, slash, layout = (part.strip() for part in stripped.partition("/"))
    if not slash or "/" in layout:
        number = stripped.count("/")
        raise ConfigError(
            f"--setup {text}: has {number or 'no'} '/', but needs 1 between the mesh and the layout. Fix: {_FORM}."
        )
    return f"{mesh_shape}/{layout}", Layout.parse(mesh_shape, layout)


def _read_layout_file(name: str) -> tuple[str, Layout]:
    """Reads a layout file without binding it, because gin has only one configuration, which the job uses."""
    path = find_gin_file(name)
    try:
        bound, uses = read_gin_text([path])
    except SyntaxError as error:
        raise ConfigError(f"--setup {name}, gin file {path}: {error}") from error
    mesh_shape, layout = (bound.pop(f"setup.{parameter}", "") for parameter in _BOUND)
    others = sorted({*bound, *uses})
    if others or not (mesh_shape or layout) or not (isinstance(mesh_shape, str) and isinstance(layout, str)):
        raise ConfigError(
            f"--setup {name}, gin file {path}: {f'has {others[0]}; ' if others else ''}a layout file binds only "
            f"setup.mesh_shape and setup.layout, to strings. Fix: give it to all setups with --gin_file {name}, and "
            "each layout with --setup MESH/LAYOUT."
        )
    return Path(name).stem, Layout.parse(mesh_shape, layout)
