"""The receptive field, the patch, and the costs of predicting a whole image, as text."""

from collections.abc import Iterator
from typing import Protocol

from mtf_imaging.engine.program.memory import format_bytes
from mtf_imaging.plain_text import counted
from mtf_imaging.planner.cost.explained import Explained
from mtf_imaging.planner.cost.hardware import Hardware
from mtf_imaging.planner.cost.prediction import PatchCost, Prediction
from mtf_imaging.planner.cost.receptive_field import ReceptiveField, along
from mtf_imaging.planner.render.recipe_text import format_seconds

_RED = "\033[31m"


class Paint(Protocol):
    """Colors a text, or returns it unchanged."""

    def __call__(self, text: str, color: str, /) -> str: ...


def field_lines(explained: Explained, paint: Paint) -> Iterator[str]:
    """Yields lines about the patch, the receptive field, the visible part of the image, and notices about both."""
    field, patch = explained.receptive_field, explained.patch
    if patch is not None:
        yield _patch_line(patch)
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


def prediction_lines(patch: PatchCost, hardware: Hardware | None) -> Iterator[str]:
    """Yields the costs of predicting a whole image with windows and at once."""
    yield "prediction of one image"
    windows = f"{counted(patch.windows, 'window')}, step {patch.window_step:g}"
    rows = {windows: patch.sliding, "whole image at once": patch.whole}
    width = max(map(len, rows))
    for name, prediction in rows.items():
        yield f"  {name:{width}}  {_prediction(prediction, hardware)}"


def room(hardware: Hardware) -> str:
    """Returns the usable memory of a device, such as "75% of h200's 131.0 GiB"."""
    return f"{hardware.usable:.0%} of {hardware.name}'s {format_bytes(int(hardware.memory))}"


def _patch_line(patch: PatchCost) -> str:
    sizes, image = (" x ".join(map(str, grid)) for grid in (patch.patch, patch.image))
    windows = counted(patch.windows, "window")
    return f"patch: {sizes} of {image} voxels, {100 * patch.share:.2g}% of the image; {windows} cover it"


def _prediction(prediction: Prediction | None, hardware: Hardware | None) -> str:
    if prediction is None:
        return "is not possible: the network or the layout does not accept this size"
    text = f"{format_bytes(prediction.plan.memory)} per device"
    if hardware is None or prediction.seconds is None:
        return text
    fits = "fits" if prediction.fits else "does not fit"
    return f"{format_seconds(prediction.seconds)}, {text}: {fits} in {room(hardware)}"
