"""A plan as a gin file, and as a table."""

import math
import shlex
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mtf_imaging.cli.runtime.subprocesses import command_words
from mtf_imaging.cli.runtime.usage import PROGRAM
from mtf_imaging.data.description.description import LITS_RULES, Description
from mtf_imaging.data.fingerprint import Fingerprint
from mtf_imaging.data.intensities.schemes import WINDOW
from mtf_imaging.data.modality import is_ct
from mtf_imaging.data.sampling.grid import AXIS_NAMES, format_grid
from mtf_imaging.data.sampling.sampling import format_spacing
from mtf_imaging.engine.layout import Layout
from mtf_imaging.engine.program.memory import format_bytes
from mtf_imaging.jobs.choices import Choice
from mtf_imaging.jobs.choices.deciding import Alternative
from mtf_imaging.jobs.planning import JobPlan
from mtf_imaging.plain_text import counted
from mtf_imaging.planner.cost.receptive_field import ReceptiveField
from mtf_imaging.planner.render.field_text import field_notices
from mtf_imaging.planner.render.recipe_text import format_seconds

_WIDTH = 119
_FEWEST_FOR_FOLDS = 5


def command_lines(plan: JobPlan, data_dir: str, output: Path, spacing_csv: str | None = None) -> dict[str, str]:
    """Returns the command lines that convert, train and cross-validate as planned, by command name.

    Args:
      plan: the plan.
      data_dir: the case folder.
      output: the gin file of the plan.
      spacing_csv: the table of the cases' voxel sizes, or None.
    """
    parent, num_cases = Path(data_dir).parent, len(plan.fingerprint.cases)
    records, run, folds_dir = (parent / name for name in ("records", "run", "cross_validation"))
    job = {"gin_file": output}
    folds = num_cases if num_cases < _FEWEST_FOR_FOLDS else None
    words: dict[str, dict[str, Any]] = {
        "convert": {
            "input_dir": data_dir,
            "output_dir": records,
            "spacing": format_spacing(plan.spacing.value),
            "resolution": format_grid(plan.grid.value),
            "spacing_csv": spacing_csv,
            "crop_to_nonzero": plan.crop.value or None,
        },
        "train": {"data_dir": records, "model_dir": run, **job},
    }
    if num_cases > 1:
        words["train"] |= {"fold": 0, "num_folds": folds}
        words["cross_validate"] = {
            "data_dir": records,
            "input_dir": data_dir,
            "output_dir": folds_dir,
            **job,
            "num_folds": folds,
            "spacing_csv": spacing_csv,
        }
    return {name: shlex.join([PROGRAM, *command_words(name, values)]) for name, values in words.items()}


def gin_text(plan: JobPlan, data_dir: str, lines: Mapping[str, str]) -> str:
    """Returns the gin file of a plan, with the reason for each choice in a comment.

    Args:
      plan: the plan.
      data_dir: the case folder.
      lines: the command lines at the end, by command name.
    """
    parts = [
        *_comment(f"A job for {data_dir}: {_data(plan.fingerprint)}. `{PROGRAM} plan` wrote this file."),
        *_comment(
            f"Needs: {_devices(plan)}; the cases, converted by the first command at the end of this file, to the "
            "resolution and spacing below."
        ),
        *_comment(f"Memory: {_memory(plan)}, an estimate."),
        *_comment(f"Takes: {_time(plan)}, an estimate."),
        *_comparison(plan),
        *_comment(_intensities(plan)),
        *_comment(
            "Sources: Hou et al. 2019 (High Resolution Medical Image Analysis with Spatial Partitioning); Isensee "
            "et al. 2021 (nnU-Net, Nature Methods 18, 203-211)."
        ),
        "import mtf_imaging.models.unet3d",
        "",
        *_task(plan),
        "",
        *_bound("setup.spacing", _as(plan.spacing, format_spacing)),
        *_bound("setup.resolution", _as(plan.grid, format_grid)),
        *(_bound("train.patch", _as(plan.patch, format_grid)) if plan.patch is not None else ()),
        *_bound("setup.batch_size", plan.batch_size),
        *_bound("setup.mesh_shape", _as(plan.layout, lambda layout: layout.mesh_string)),
        f"setup.layout = {plan.layout.value.rules_string!r}",
        *_turns(plan.layout.value),
        *_bound("job.dtype", plan.dtype),
        *(_bound("job.window", plan.window) if plan.window is not None else ()),
        *(_bound("Records.intensities", plan.intensities) if plan.intensities.value else ()),
        "",
        *_bound("num_steps", plan.num_steps),
        *_comment("--num_steps changes the steps and the end of the learning rate's decay."),
        "train.num_steps = %num_steps",
        *_bound("train.checkpoint_every", plan.checkpoint_every),
        "train.optimizer = @Adam()",
        "Adam.learning_rate = @PolyDecay()",
        *_bound("PolyDecay.initial", plan.learning_rate),
        "PolyDecay.steps = %num_steps",
        "",
        "train.augmentation = @Augmentation()",
        *_all_bound("Augmentation", plan.augmentation),
        "",
        *_comment("Convert, train one fold, or train and score all folds:"),
        *(f"#   {line}" for line in lines.values()),
    ]
    return "\n".join(parts) + "\n"


def plan_table(plan: JobPlan) -> str:
    """Returns the fingerprint and the choices of a plan as a short table."""
    fingerprint, network, flips = plan.fingerprint, plan.network, plan.augmentation["flips"]
    rows = {
        "data": _data(fingerprint),
        "median case": f"{_sizes(fingerprint.median_shape)} voxels of {_sizes(fingerprint.median_spacing)} mm",
        **({"crop": f"to nonzero voxels: {plan.crop.reason}"} if plan.crop.value else {}),
        "labels": "; ".join(
            f"{name} {fingerprint.frequency(label):.2%} of the voxels, in {fingerprint.prevalence(label):.0%} of cases"
            for name, label in fingerprint.description.labels.items()
        ),
        "volume": f"{_sizes(plan.grid.value)} voxels of {format_spacing(plan.spacing.value)} mm",
        **({} if plan.patch is None else {"patch": _patch(plan)}),
        "network": f"{network['depth'].value} levels, {network['base_filters'].value} filters, {plan.dtype.value}"
        + (", recomputed activations" if network["recompute"].value else ""),
        **({} if plan.receptive_field is None else {"sees": _field(plan.receptive_field)}),
        "batch": f"{plan.batch_size.value}, {plan.num_steps.value:,} steps",
        **({} if plan.window is None else {"window": _window(plan.window)}),
        "flips": f"{', '.join(flips.value) or 'none'}; {flips.reason}",
        "layout": f"{plan.layout.value.rules_string or 'no split'} on {_devices(plan)}",
        **({"turns": plan.layout.reason} if plan.layout.value.sequential else {}),
        "memory": _memory(plan),
        "time": _time(plan),
    }
    if len(plan.alternatives) > 1:
        rows |= dict(zip(("planned", "instead of"), map(_alternative, plan.alternatives)))
    if plan.patch is not None:
        rows["because"] = f"{plan.kind.value}: {plan.kind.reason}"
    return "\n".join(
        textwrap.fill(text, _WIDTH, initial_indent=f"{name:<13}", subsequent_indent=" " * 13)
        for name, text in rows.items()
    )


def _field(field: ReceptiveField) -> str:
    """Returns the receptive field, with notices."""
    notices = "".join(f"; notice: {notice}" for notice in field_notices(field))
    if field.patch is not None:
        return f"{field.compare(field.seen, field.image)}{notices}"
    missing = "" if field.covers_image or notices else "; a voxel of the output sees only a part of a volume"
    return f"{field}{missing}{notices}"


def _patch(plan: JobPlan) -> str:
    planned = plan.alternatives[0]
    sizes, volume = planned.fitted.variant.sizes, planned.fitted.grid.value
    share = 100 * math.prod(sizes) / math.prod(volume)
    return f"{_sizes(sizes)} voxels, {share:.2g}% of a volume; {planned.windows:,} windows cover a volume"


def _comparison(plan: JobPlan) -> Iterator[str]:
    """Yields comment lines about the decision between whole volumes and patches, with the costs of both."""
    yield from _comment(f"{plan.kind.value.capitalize()}: {plan.kind.reason}.")
    if len(plan.alternatives) > 1:
        for name, text in zip(("Planned", "Instead of"), map(_alternative, plan.alternatives), strict=True):
            yield from _comment(f"{name}: {text}; estimates.")


def _alternative(one: Alternative) -> str:
    """Describes a step and its costs in one line."""
    fitted = one.fitted
    what = "whole volumes of" if fitted.patch is None else f"patches of {_sizes(fitted.patch.value)} of"
    parts = [
        f"{what} {_sizes(fitted.grid.value)} voxels of {format_spacing(fitted.spacing.value)} mm",
        f"{fitted.filters} filters, batch {fitted.batch_size.value}",
        f"{format_bytes(fitted.found.plan.memory)} per device",
        f"{format_seconds(one.seconds)} per step, {_hours(one.hours)} for {fitted.num_steps.value:,} steps",
    ]
    if one.prediction is not None and one.prediction.seconds is not None:
        windows = f" ({one.windows:,} windows)" if one.windows > 1 else ""
        parts.append(f"{format_seconds(one.prediction.seconds)} to predict a case{windows}")
    if one.receptive_field is not None:
        parts.append(f"a voxel sees {one.receptive_field.lengths(one.receptive_field.seen, AXIS_NAMES)}")
    return "; ".join(parts)


def _task(plan: JobPlan) -> Iterator[str]:
    description = plan.fingerprint.description
    is_lits = description.rules == LITS_RULES
    task = "unet3d.LiverTumorSegmentation" if is_lits else "unet3d.Segmentation"
    yield f"job.task = @{task}()"
    yield f"{task}.network = @unet3d.UNet3D()"
    if not is_lits:
        yield from _comment("For commands without data; dataset.json overrides the channels, labels and regions.")
        for name, value in _description(description).items():
            yield f"{task}.{name} = {value!r}"
    yield from _all_bound(task, plan.loss)
    yield from _all_bound("unet3d.UNet3D", plan.network)


def _turns(layout: Layout) -> Iterator[str]:
    if layout.sequential:
        yield f"setup.sequential = {','.join(layout.sequential)!r}"
    if layout.offload_dir:
        yield f"setup.offload_dir = {layout.offload_dir!r}"


def _description(description: Description) -> dict[str, Any]:
    """Returns the keyword arguments of `unet3d.Segmentation` for a description."""
    values: dict[str, Any] = {"channels": description.channels, "labels": tuple(description.labels)}
    if description.has_regions:
        values |= {"regions": dict(description.masks), "region_order": description.region_order}
    return values | ({} if description.ignore is None else {"ignore": description.ignore})


def _bound(name: str, choice: Choice) -> Iterator[str]:
    """Yields the reason for a choice as comment lines, then its binding."""
    yield from _comment(choice.reason[:1].upper() + choice.reason[1:] + ".")
    yield f"{name} = {choice.value!r}"


def _all_bound(owner: str, choices: Mapping[str, Choice]) -> Iterator[str]:
    """Yields the bindings of several parameters; a reason shared by consecutive bindings is written once."""
    last = None
    for name, choice in choices.items():
        lines = list(_bound(f"{owner}.{name}", choice))
        yield from lines[-1:] if choice.reason == last else lines
        last = choice.reason


def _as(choice: Choice, form) -> Choice:
    return choice._replace(value=form(choice.value))


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="# ", subsequent_indent="#   ", break_on_hyphens=False)


def _data(fingerprint: Fingerprint) -> str:
    description = fingerprint.description
    kind = "regions" if description.has_regions else "labels"
    names = description.masks if description.has_regions else description.labels
    return f"{counted(len(fingerprint.cases), 'case')}, {', '.join(description.channels)}; {kind} {', '.join(names)}"


def _intensities(plan: JobPlan) -> str:
    """Returns the intensity scheme of each channel, with statistics of the labeled voxels."""
    description, texts = plan.fingerprint.description, []
    for index, (name, scheme) in enumerate(zip(description.channels, description.intensities, strict=True)):
        low, high = plan.fingerprint.foreground_percentiles(index)
        is_planned = plan.window is not None and is_ct(name)
        own = "with the window below" if is_planned else plan.intensities.value.get(name, scheme)
        text = f"{name} ({own}; labeled voxels have {low:.4g} to {high:.4g}, percentiles 0.5 to 99.5"
        if not is_planned and scheme.kind == WINDOW and not scheme.window[0] <= low <= high <= scheme.window[1]:
            text += ", which the window clips"
        texts.append(f"{text})")
    cropped = f" Images are cropped to their nonzero voxels: {plan.crop.reason}." if plan.crop.value else ""
    return f"Intensities: {', '.join(texts)}.{cropped}"


def _window(window: Choice) -> str:
    low, high = window.value
    return f"{low:g} to {high:g} {window.reason}"


def _devices(plan: JobPlan) -> str:
    hosts = f" on {plan.num_hosts} hosts" if plan.num_hosts > 1 else ""
    return f"{plan.num_devices} x {plan.hardware.name}{hosts}"


def _memory(plan: JobPlan) -> str:
    available = int(plan.hardware.usable_memory)
    return (
        f"{format_bytes(plan.found.plan.memory)} per device, of {format_bytes(available)} that tensors may take "
        f"({plan.hardware.usable:.0%} of {format_bytes(int(plan.hardware.memory))})"
    )


def _time(plan: JobPlan) -> str:
    seconds = plan.found.time.total
    total = _hours(seconds * plan.num_steps.value / 3600)
    return f"{format_seconds(seconds)} per step, {total} for {plan.num_steps.value:,} steps"


def _hours(hours: float) -> str:
    return f"{hours / 24:.1f} days" if hours >= 48 else f"{hours:.1f} hours" if hours >= 1 else f"{hours * 60:.0f} min"


def _sizes(sizes) -> str:
    return " x ".join(f"{size:.4g}" for size in sizes)
