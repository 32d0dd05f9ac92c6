"""`mtf-imaging bench`: what a step really takes under several layouts, beside what explain says."""

import json
from pathlib import Path

from absl import flags

from mtf_imaging.cli.config import setup_flags
from mtf_imaging.cli.config.bench_setups import parse_setup
from mtf_imaging.cli.runtime.quiet import import_tensorflow
from mtf_imaging.errors import ConfigError, MtfImagingError
from mtf_imaging.files.run_folder import CONFIG

SUMMARY = "takes steps of a job under several layouts in turn: time, memory and exchange, beside what explain says."
EXAMPLE = "mtf-imaging bench --gin_file unet3d_demo --resolution 64 --setup / --setup 4x4 --setup rows:2/x:rows"
REQUIRED = ()
NOTES = (
    "Every setup has a process of its own, and all take steps in turn, on random images. All must give the same first "
    "loss and gradient: the exit code is 1 where they differ, or where no setup could be measured. A setup that is not "
    "legal, or that memory is too small for, is said to be so; the others are measured.",
)
_OTHER_WAYS = ("mesh_shape", "layout", "input_partition_dims")


def define_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_multi_string(
        "setup",
        None,
        "MESH/LAYOUT, as rows:2,cols:2/x:rows,y:cols; / for one processor; or a layout's gin file, as 4x4; may be "
        "repeated. Default: one processor, and the layout of the job.",
        flag_values=values,
    )
    flags.DEFINE_integer("steps", 10, "Steps of each setup that are timed.", lower_bound=1, flag_values=values)
    flags.DEFINE_bool("json", False, "Print everything as JSON.", flag_values=values)
    flags.DEFINE_string("data_dir", None, "Records, or other data, whose resolution is meant.", flag_values=values)
    flags.DEFINE_string("model_dir", None, "Folder of a run, whose config.gin is read.", flag_values=values)
    setup_flags.define(values, without=["cluster"])  # bench runs on the devices of this machine


def run(values: flags.FlagValues) -> None:
    given = [f"--{name}" for name in _OTHER_WAYS if values[name].value is not None]
    if values.setup and given:
        mesh, layout = values.mesh_shape or "MESH", values.layout or "LAYOUT"
        raise ConfigError(
            f"{' and '.join(given)} beside --setup: each --setup is a mesh and a layout itself. Fix: --setup "
            f"'{mesh}/{layout}' instead of {' and '.join(given)}."
        )
    setups = [parse_setup(text) for text in values.setup or []]
    configuration = setup_flags.Configuration(
        values, values.model_dir and Path(values.model_dir) / CONFIG, job="unet3d_demo"
    )
    import_tensorflow()
    from mtf_imaging.cli.config.training_settings import bound_step
    from mtf_imaging.jobs.benching import as_setup, bench_step
    from mtf_imaging.planner.bench.subject import Setup
    from mtf_imaging.planner.bench.table import as_dict, text

    setup = configuration.bind()
    step = bound_step(setup, values.data_dir)
    if not setups and setup.parsed_layout.processors > 1:
        setups = [parse_setup("/"), as_setup(setup.parsed_layout)]
    found = bench_step(step, [Setup(*named) for named in setups], values.steps, setup.mesh_impl)
    print(json.dumps(as_dict(found), indent=1) if values.json else text(found))
    if not found.equal:
        raise MtfImagingError("\n".join(["results depend on the layout, which they must not:", *found.differences]))
    if all(row.error is not None for row in found.rows):
        raise MtfImagingError("no setup could be measured; each says above why.")
