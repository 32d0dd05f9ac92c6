"""The output of `mtf-imaging search`, with flags for using the result."""

import shlex
from collections.abc import Iterator

from mtf_imaging.engine.layout import Layout
from mtf_imaging.engine.program.memory import format_bytes
from mtf_imaging.jobs.searching import PlannedDevices
from mtf_imaging.jobs.steps.recomputation import recompute_setting, recomputes_activations
from mtf_imaging.planner.cost.recipe import UNKNOWN_RECIPE, Recipe, recipe_cost
from mtf_imaging.planner.render.recipe_text import format_seconds, recipe_lines
from mtf_imaging.planner.render.search_table import search_table
from mtf_imaging.planner.search.search import Found, Searched
from mtf_imaging.training.step import TrainingStep


def ranking_text(
    searched: Searched,
    step: TrainingStep,
    devices: PlannedDevices,
    top: int,
    recipe: Recipe = UNKNOWN_RECIPE,
) -> str:
    """Returns the ranked layouts, with the training cost and the flags for the first one.

    Args:
      searched: the result of the search.
      step: the training step.
      devices: the devices.
      top: the number of rows to show.
      recipe: the training length and the device price.
    """
    volume = " x ".join(map(str, step.sizes))
    lines = [f"{_on(devices)}, {volume} voxels, batch {step.batch_size}, {step.dtype}:", ""]
    lines += [search_table(searched, top), ""]
    if not searched.found:
        lines.append(
            f"No layout keeps {devices.number} processors busy. Fix: fewer --num_devices or a higher --resolution."
        )
    elif searched.best is None:
        least = min(found.plan.memory for found in searched.found)
        lines.append(
            f"No layout fits: the smallest needs {format_bytes(least)} of each device, and {devices.hardware.name} has "
            f"{format_bytes(int(devices.memory))} for it. Fix: more --num_devices, a lower --resolution or "
            "--batch_size, or more --micro_batches."
        )
    else:
        lines += [*_training(searched.best, step, devices, recipe, "training with the first layout"), ""]
        lines.append(f"To use the first layout: {_flags(searched.best, step)}")
    return "\n".join(lines)


def largest_text(
    at_once: tuple[int, Found] | None,
    in_turns: tuple[int, Found] | None,
    step: TrainingStep,
    devices: PlannedDevices,
    recipe: Recipe = UNKNOWN_RECIPE,
) -> str:
    """Returns the largest cubes, with the training cost and the flags to train on them.

    Args:
      at_once: the side of the cube in voxels, and the layout; None if not even the smallest cube fits.
      in_turns: the same if processors take turns.
      step: the training step.
      devices: the devices.
      recipe: the training length and the device price.
    """
    lines = [f"{_on(devices)}, batch {step.batch_size}, {step.dtype}:"]
    if at_once is None:
        lines.append("not even the smallest cube fits. Fix: more --num_devices, or a higher --memory_limit.")
    for size, best in filter(None, (at_once, in_turns)):
        memory_use = "activations recomputed in the backward pass" if best.recompute else "all activations kept"
        turns = best.plan.turns
        how = f" in {turns.turns} turns, {format_bytes(turns.waiting)} wait" if turns else ""
        lines += [
            f"up to {size}^3 voxels{how}, {memory_use}: {format_bytes(best.plan.memory)} of "
            f"{format_bytes(int(devices.memory))} per device, {format_seconds(best.time.total)} per step.",
            *_training(best, step, devices, recipe, "training"),
            f"To train on it: --resolution {size} {_flags(best, step)}",
            "",
        ]
    return "\n".join(lines).rstrip()


def _training(found: Found, step: TrainingStep, devices: PlannedDevices, recipe: Recipe, title: str) -> Iterator[str]:
    return recipe_lines(recipe_cost(recipe, found.time.total, step.batch_size, devices.number), title)


def _on(devices: PlannedDevices) -> str:
    memory = format_bytes(int(devices.memory))
    return f"{devices.number} x {devices.hardware.name}, {memory} of memory for tensors on each"


def _flags(found: Found, step: TrainingStep) -> str:
    mesh_shape, layout = (text or repr("") for text in (found.layout.mesh_string, found.layout.rules_string))
    needed = found.recompute and not recomputes_activations(step.task)
    again = f" --gin.{recompute_setting(step.task)}=True" if needed else ""
    return f"--mesh_shape {mesh_shape} --layout {layout}{turn_flags(found.layout)}{again}"


def turn_flags(layout: Layout) -> str:
    """Returns the flags for processors in turns, with a space before; "" if no processors take turns."""
    folder = f" --offload_dir {shlex.quote(layout.offload_dir)}" if layout.offload_dir else ""
    return f" --sequential {','.join(layout.sequential)}{folder}" if layout.sequential else ""
