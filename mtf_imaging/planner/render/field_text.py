"""The receptive field, the patch, and the costs of predicting a whole image, as text."""

import math
from collections.abc import Iterator
from typing import Protocol

from mtf_imaging.engine.program.memory import format_bytes
from mtf_imaging.plain_text import counted
from mtf_imaging.planner.cost.explained import Explained
from mtf_imaging.planner.cost.hardware import Hardware
from mtf_imaging.planner.cost.prediction import BYTES, ImageCost, Prediction
from mtf_imaging.planner.cost.receptive_field import ReceptiveField, along
from mtf_imaging.planner.render.recipe_text import format_seconds

_RED = "\033[31m"


class Paint(Protocol):
    """Colors a text, or returns it unchanged."""

    def __call__(self, text: str, color: str, /) -> str: ...


def field_lines(explained: Explained, paint: Paint) -> Iterator[str]:
    """Yields lines about the patch, the receptive field, the visible part of the image, and notices about both."""
    field, cost = explained.receptive_field, explained.prediction
    if cost is not None and cost.has_patches:
        yield _patch_line(cost)
    if field is None:
        return
    yield f"receptive field: {field}"
    if field.patch is not None:
        yield f"  a voxel of the output sees {field.compare(field.seen, field.image)} of the image"
    for notice in field_notices(field):
        yield paint(f"  notice: {notice}", _RED)


def field_notices(field: ReceptiveField) -> Iterator[str]:
    """Yields notices about a field much smaller than its input, and a patch much smaller than the image."""
    what = "image" if field.patch is None else "patch"
    if field.narrow:
        wide = along({name: f"{field.voxels[name]} of {field.input[name]} voxels" for name in field.narrow})
        norms = "; norms add only statistics of the whole input, without places" if field.statistics else ""
        yield (
            f"the network sees less than half of the {what}: {wide}{norms}. "
            "Fix: use more levels (a greater depth), larger kernels or larger pools."
        )
    if field.cut:
        share = along({name: f"{field.input[name]} of {field.image[name]} voxels" for name in field.cut})
        norms = ", not even by statistics of norms" if field.statistics else ""
        yield (
            f"the patch has less than half of the image: {share}. Structures further apart than "
            f"{field.lengths(field.input, field.cut)} are never seen together{norms}. Fix: use a larger patch, split "
            "it over more devices with a layout, or convert to a coarser spacing."
        )


def prediction_lines(cost: ImageCost, hardware: Hardware | None) -> Iterator[str]:
    """Yields the costs of predicting an image with windows and at once, and the size of all its probabilities."""
    yield "prediction of one image"
    windows = f"{counted(cost.windows, 'window')}, step {cost.window_step:g}"
    turns = cost.whole and cost.whole.plan.turns
    at_once = f"whole image in {turns.turns} turns" if turns else "whole image at once"
    rows = {**({windows: cost.sliding} if cost.has_patches else {}), at_once: cost.whole}
    width = max(map(len, rows))
    for name, prediction in rows.items():
        yield f"  {name:{width}}  {_prediction(prediction, hardware)}"
    if cost.labels is not None:
        factors = f"{BYTES} bytes x {counted(cost.labels, 'label')} x {math.prod(cost.image):,} voxels"
        yield f"  all probabilities in memory, as in nnU-Net: {format_bytes(cost.all_probabilities)} = {factors}"


def room(hardware: Hardware) -> str:
    """Returns the usable memory of a device, such as "75% of h200's 131.0 GiB"."""
    return f"{hardware.usable:.0%} of {hardware.name}'s {format_bytes(int(hardware.memory))}"


def _patch_line(patch: ImageCost) -> str:
    sizes, image = (" x ".join(map(str, grid)) for grid in (patch.patch, patch.image))
    windows = counted(patch.windows, "window")
    return f"patch: {sizes} of {image} voxels, {100 * patch.share:.2g}% of the image; {windows} cover it"


def _prediction(prediction: Prediction | None, hardware: Hardware | None) -> str:
    if prediction is None:
        return "is not possible: the network or the layout does not accept this size"
    text = f"{format_bytes(prediction.plan.memory)} per device"
    if hardware is not None and prediction.seconds is not None:
        fits = "fits" if prediction.fits else "does not fit"
        text = f"{format_seconds(prediction.seconds)}, {text}: {fits} in {room(hardware)}"
    if prediction.process is not None:
        text += f"; {format_bytes(prediction.process)} in a process on a CPU"
    return f"{text}; {format_bytes(prediction.files)} of temporary files" if prediction.files else text
