"""Builds the last line of a command: the next useful command, with the paths of this command filled in."""

import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absl import flags

from mtf_imaging.cli.config.setup_flags import GinSettings
from mtf_imaging.cli.runtime.command_lines import as_typed, beside, command_line, quoted, unused
from mtf_imaging.cli.runtime.planned import PLAN, planned_training, unused_plan
from mtf_imaging.cli.runtime.siblings import held_out_cases, with_held_out
from mtf_imaging.cli.runtime.usage import PROGRAM
from mtf_imaging.files.run_folder import CONFIG
from mtf_imaging.settings.patches import PatchSetting
from mtf_imaging.settings.setting import settings_of
from mtf_imaging.settings.step import BatchSettings, SpacingSettings
from mtf_imaging.settings.training import NUM_FOLDS

if TYPE_CHECKING:  # these import TensorFlow or NumPy
    from mtf_imaging.kinds.kind import NextStep
    from mtf_imaging.layout import Layout
    from mtf_imaging.planner.bench.compare import Row
    from mtf_imaging.planner.cost.explained import Explained
    from mtf_imaging.planner.search.search import Found

QUIET = "MTF_IMAGING_NO_NEXT_STEP"  # set for the commands that demo runs

_DEMO_JOB = "unet3d_demo"
_JOB_OF_ANY = "unet3d_brain"  # its task uses the channels and labels of the data
_JOBS_OF_PHOTOS = {"scenes": "deeplab_scenes", "objects": "retinanet_objects"}  # by kind of phantom
_DEMO_RESOLUTION = 64
_DEMO_LARGEST = 160  # voxels along each axis; larger records need more memory than a laptop has
_JOB_FLAGS = [
    one.flag for cls in (GinSettings, BatchSettings, SpacingSettings, PatchSetting) for one in settings_of(cls)
]
_HOST_FLAGS = ("num_hosts", "mesh_impl")
_HARDWARE = "h200"  # an assumption of suggested commands


def show(line: str | None) -> None:
    """Prints the line, unless another command started this command."""
    if line and QUIET not in os.environ:
        print(f"Next: {line}", flush=True)


def after_phantom(values: flags.FlagValues) -> str | None:
    """Suggests converting the cases."""
    if values.num_cases < 1:
        return None
    records = unused(beside(values.output_dir, "records"))
    return command_line("convert", input_dir=values.output_dir, output_dir=records, resolution=_DEMO_RESOLUTION)


def after_photos(values: flags.FlagValues) -> str:
    """Suggests training on the photos."""
    folder, model_dir = values.output_dir, unused(beside(values.output_dir, "run"))
    job = _JOBS_OF_PHOTOS[values.kind]
    return command_line("train", data_dir=folder, eval_dir=folder, model_dir=model_dir, gin_file=job)


def after_convert(values: flags.FlagValues) -> str | None:
    """Suggests training on the records as planned, or on phantoms; for other data, planning comes first.

    A shipped job suits the phantoms, but neither the voxels nor the labels of other data. If phantoms have large
    records, the line suggests estimating the cost of a step.
    """
    from mtf_imaging.data.description.description import LITS_RULES
    from mtf_imaging.data.phantom.file_formats import is_phantom
    from mtf_imaging.data.records.manifest import read_manifest

    manifest = read_manifest(values.output_dir)
    if manifest is None:
        return None
    first = next(iter(manifest.sources.values()), None)
    data_dir, held_out = with_held_out(Path(values.output_dir), manifest)
    if planned := planned_training(data_dir, held_out, manifest.sampling):
        return planned
    if first is None or not is_phantom(Path(values.input_dir) / first.volume):
        output = unused_plan()
        options = {"output": None if output == PLAN else output, "spacing_csv": values.spacing_csv}
        return command_line("plan", data_dir=values.input_dir, num_devices=1, hardware=_HARDWARE, **options)
    grid = manifest.sampling.grids[-1]
    if math.prod(grid) > _DEMO_LARGEST**3:
        return command_line("explain", data_dir=values.output_dir)
    options = {"eval_dir": held_out} if held_out else _folds(len(manifest.cases))
    model_dir = unused(beside(values.output_dir, "run"))
    job = _DEMO_JOB if manifest.description.rules == LITS_RULES else _JOB_OF_ANY
    return command_line("train", data_dir=data_dir, model_dir=model_dir, gin_file=job, **options)


def after_plan(convert: str) -> str:
    """Suggests converting the cases to the planned resolution and spacing.

    Args:
      convert: the command line of the conversion, with the name of the program.
    """
    return f"{as_typed(PROGRAM)} {convert.removeprefix(PROGRAM).lstrip()}"


def after_dry_run(values: flags.FlagValues) -> str:
    """Suggests the same training without --dry_run."""
    given = {name: values[name].value for name in values if values[name].present and name != "dry_run"}
    return command_line("train", **given)


def after_train(values: flags.FlagValues, fold: int | None, is_records: bool, has_splits: bool = False) -> str:
    """Suggests evaluating the held-out cases if their folder is found, and viewing the training curves otherwise.

    Args:
      values: the flags of train.
      fold: the held-out fold, or None.
      is_records: whether the data and the held-out cases are records.
      has_splits: whether they are splits of photos or objects, which evaluate reads from the same folder.
    """
    cases = values.eval_dir if has_splits else held_out_cases(values, fold) if is_records else None
    if cases is None:
        return _tensorboard(values.model_dir)
    output_dir = unused(beside(values.model_dir, "evaluation"))
    return command_line(
        "evaluate",
        model_dir=values.model_dir,
        input_dir=cases,
        output_dir=output_dir,
        fold=fold,
    )


def after_cross_validate(values: flags.FlagValues) -> str:
    """Names the report and the command that segments new volumes with all folds."""
    output_dir = unused(beside(values.output_dir, "segmentations"))
    predict = command_line("predict", model_dir=values.output_dir, ensemble=True, input="volumes", output=output_dir)
    return f"open {quoted(Path(values.output_dir) / 'report.html')} in a browser, or segment new volumes with {predict}"


def after_evaluate(values: flags.FlagValues) -> str:
    """Names the report and the command for the training curves."""
    return (
        f"open {quoted(Path(values.output_dir) / 'report.html')} in a browser, or run {_tensorboard(values.model_dir)}"
    )


def after_predict(step: "NextStep") -> str:
    """Suggests the next step for this kind of images: scoring or viewing the predictions.

    Args:
      step: the next step.
    """
    if step.flags is None:
        return step.text.format(*map(quoted, step.paths))
    return command_line(step.text, **step.flags | {"output_dir": unused(step.flags["output_dir"])})


def after_score(values: flags.FlagValues) -> str:
    """Names the report."""
    return f"open {quoted(Path(values.output_dir) / 'report.html')} in a browser"


def after_export(values: flags.FlagValues) -> str:
    """Names the model's page, and its program for NIfTI files if there is one."""
    folder = Path(values.output)
    program = folder / "segment.py"
    more = "load the model with tf.saved_model.load"
    if values.format != "saved_model":
        more = "run it as the example there does"
    elif program.exists():
        more = f"segment a NIfTI file with python {quoted(program)} VOLUME SEGMENTATION"
    return f"read {quoted(folder / 'README.md')}, or {more}"


def after_import_weights(values: flags.FlagValues, job: str, data_dir: str, gin_params: list[str]) -> str:
    """Suggests training from the weights.

    Args:
      values: the flags of import_weights.
      job: the name of a job with this backbone.
      data_dir: a folder for its data.
      gin_params: backbone gin parameters that agree with the weights.
    """
    folders = {"data_dir": data_dir, "model_dir": unused(beside(values.output_dir, "run"))}
    return command_line("train", **folders, initial_weights=values.output_dir, gin_file=job, gin_param=gin_params)


def after_demo(model_dir: Path, data_dir: Path) -> str:
    """Suggests estimating the costs of the demo's layout.

    Args:
      model_dir: the run folder.
      data_dir: the folder of its training data.
    """
    return command_line("explain", model_dir=model_dir, data_dir=data_dir)


def after_explain(values: flags.FlagValues, explained: "Explained") -> str:
    """Suggests measuring the layout if this machine has the memory for it, and searching for a layout otherwise.

    Args:
      values: the flags of explain.
      explained: the reported costs.
    """
    layout, processors = explained.plan.layout, explained.plan.processors
    fits = explained.plan.memory * processors < _free_memory() / 2
    if processors > 1 and fits and explained.hardware is None:
        job = _given(values, "data_dir", "model_dir", *_JOB_FLAGS)
        return command_line("bench", **job, setup=["/", f"{layout.mesh_string}/{layout.rules_string}"])
    number = values.num_devices or (processors if processors > 1 else 4)
    job = _with_saved_job(values, _given(values, "data_dir", *_JOB_FLAGS))
    hosts = {} if values.mesh_impl == "stacked" else _given(values, *_HOST_FLAGS)  # search has a device per processor
    price = _given(values, "price_per_hour")
    return command_line("search", num_devices=number, **hosts, hardware=values.hardware or _HARDWARE, **price, **job)


def after_search(
    values: flags.FlagValues, best: "Found | None", recompute: str | None, size: int | None = None
) -> str | None:
    """Suggests training under the best layout if the data are known, and estimating its costs otherwise.

    Args:
      values: the flags of search.
      best: the best layout that fits, or None.
      recompute: the gin parameter to turn on if the best layout needs recomputation that the job does not have, such
        as "UNet3D.recompute", else None.
      size: the side of the largest cube, for --max_resolution.
    """
    if best is None:
        return None
    job = _given(values, *_JOB_FLAGS)
    if recompute:
        job["gin_param"] = [*job.get("gin_param", []), f"{recompute}=True"]
    planning = {"hardware": values.hardware, **_given(values, *_HOST_FLAGS, "price_per_hour")}
    if size is not None:
        return command_line("explain", **planning, **job | {"resolution": size}, **_layout_flags(best.layout))
    return _train_or_explain(values, job, best.layout, **planning)


def after_bench(values: flags.FlagValues, rows: "Iterable[Row]") -> str | None:
    """Suggests training under the fastest layout if the data are known, and estimating its costs otherwise.

    Args:
      values: the flags of bench.
      rows: the measured setups.
    """
    measured = [row for row in rows if row.seconds is not None]
    if not measured:
        return None
    fastest = min(measured, key=lambda row: row.seconds)
    job = _with_saved_job(values, _given(values, *_JOB_FLAGS))
    return _train_or_explain(values, job, fastest.setup.layout)


def after_parameters(names: Iterable[str]) -> str:
    """Suggests estimating the effect of a U-Net parameter, or listing the flags of train."""
    if any(name.endswith("UNet3D.base_filters") for name in names):
        return command_line("explain", resolution=_DEMO_RESOLUTION) + " --gin.UNet3D.base_filters=16"
    return command_line("train", help=True)


def _train_or_explain(values: flags.FlagValues, job: dict, layout: "Layout", **planning) -> str:
    if values.data_dir:
        model_dir = unused(beside(values.data_dir, "run"))
        return command_line("train", data_dir=values.data_dir, model_dir=model_dir, **job, **_layout_flags(layout))
    return command_line("explain", **planning, **job, **_layout_flags(layout))


def _layout_flags(layout: "Layout") -> dict[str, str]:
    return {"mesh_shape": layout.mesh_string, "layout": layout.rules_string}


def _given(values: flags.FlagValues, *names: str) -> dict[str, Any]:
    """Returns the flags among these names that the command line sets."""
    return {name: values[name].value for name in names if name in values and values[name].present}


def _with_saved_job(values: flags.FlagValues, job: dict) -> dict:
    """Puts the configuration of --model_dir before the other gin files, for commands without that flag."""
    if not values.model_dir:
        return job
    return {"gin_file": [str(Path(values.model_dir) / CONFIG), *job.pop("gin_file", [])], **job}


def _folds(number: int) -> dict[str, int]:
    """Returns the train flags that hold out one fold of this many cases."""
    if number < 2:
        return {}
    return {"fold": 0} | ({"num_folds": number} if number < NUM_FOLDS else {})


def _free_memory() -> float:
    """Returns the bytes of free memory; infinity if the system does not report them."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return math.inf


def _tensorboard(folder: str) -> str:
    return f"{as_typed('tensorboard')} --logdir {quoted(folder)}"
