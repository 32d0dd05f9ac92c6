"""The plots of lesion Dice by size, and of the frequency of a mask by its probability."""

import math

from mtf_imaging.evaluation.report.markup import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Markup,
    join,
    line,
    number_text,
    svg,
    tag,
    text,
)
from mtf_imaging.evaluation.volume_scores.case import DETECTED, CaseScore
from mtf_imaging.evaluation.volume_scores.lesions import SIZE_BINS, Lesion
from mtf_imaging.evaluation.volume_scores.reliability import Reliability
from mtf_imaging.plain_text import counted

_STRIPS = {"missed": 26, "false": 50}  # pixels below Dice 0
_TICKS_MM = (1, 2, 5, 10, 20, 50, 100, 200)


def scatter(scores: list[CaseScore], mask: str, label: str = "Lesion Dice by size") -> Markup:
    """Plots the Dice of each lesion against its diameter; missed lesions and false positives have rows below.

    Args:
      scores: the scores of the cases.
      mask: the name of the mask whose lesions are plotted.
      label: the description of the plot for screen readers.
    """
    lesions = [(number, case.key, one) for number, case in enumerate(scores) for one in case.lesions_by_mask[mask]]
    if not lesions:
        return tag("p", "The references and the predictions have no lesions.", class_="note")
    sizes = [lesion.diameter for _, _, lesion in lesions]
    low = max((tick for tick in _TICKS_MM if tick <= min(sizes)), default=min(sizes))
    high = min((tick for tick in _TICKS_MM if tick >= max(sizes) and tick > low), default=max(sizes))
    bottom = HEIGHT - BOTTOM - max(_STRIPS.values()) - 10

    def x(mm):
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(mm / low) / math.log(high / low)

    def y(dice):
        return bottom - (bottom - TOP) * dice

    parts = []
    for tick in (tick for tick in _TICKS_MM if low <= tick <= high):
        parts += [line(x(tick), TOP, x(tick), HEIGHT - BOTTOM), text(x(tick), HEIGHT - BOTTOM + 20, tick)]
    for edge, _ in list(SIZE_BINS.values())[1:]:
        if low < edge < high:
            parts.append(line(x(edge), TOP, x(edge), HEIGHT - BOTTOM, "bin"))
    for dice in (0, 0.2, 0.4, 0.6, 0.8, 1):
        parts += [line(LEFT, y(dice), WIDTH - RIGHT, y(dice)), text(LEFT - 8, y(dice) + 5, f"{dice:g}", "end")]
    at = y(2 * DETECTED / (1 + DETECTED))  # Dice = 2 IoU / (1 + IoU)
    parts += [line(LEFT, at, WIDTH - RIGHT, at, "limit"), text(WIDTH - RIGHT - 4, at - 5, "IoU 0.5", "end")]
    for name, below in _STRIPS.items():
        parts += [text(LEFT - 8, bottom + below + 5, name, "end")]
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "diameter of a sphere with the same volume (mm)"))
    for number, key, lesion in lesions:
        kind = lesion_kind(lesion)
        place = bottom + _STRIPS[kind] if kind in _STRIPS else y(lesion.overlap.dice)
        dice = "" if kind in _STRIPS else f", Dice {lesion.overlap.dice:.3f}"
        title = tag("title", f"case {key}: {lesion.diameter:.1f} mm, {_KIND_WORDS[kind]}{dice}")
        parts.append(tag("a", _mark(kind, x(lesion.diameter), place, title), href=f"#c{number + 1}"))
    return svg(label, *parts)


def reliability_curve(reliability: Reliability, mask: str) -> Markup:
    """Plots the fraction of voxels in the mask for each bin of predicted probabilities."""
    low, high = HEIGHT - BOTTOM, TOP

    def place(probability: float, frequency: float) -> tuple[float, float]:
        return LEFT + (WIDTH - LEFT - RIGHT) * probability, low - (low - high) * frequency

    parts = [line(*place(0, 0), *place(1, 1), "limit")]
    for tick in (0, 0.2, 0.4, 0.6, 0.8, 1):
        x, y = place(tick, tick)
        parts += [
            line(LEFT, y, WIDTH - RIGHT, y),
            text(LEFT - 8, y + 5, f"{tick:g}", "end"),
            text(x, low + 20, f"{tick:g}"),
        ]
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, f"probability of {mask}; up: its frequency"))
    for probability, frequency, voxels in reliability.points(mask):
        x, y = place(probability, frequency)
        title = tag("title", f"probability {probability:.3f}, frequency {frequency:.3f}, {counted(voxels, 'voxel')}")
        parts.append(_mark("found", x, y, title))
    return svg(f"{mask}: frequency by probability", *parts)


_KIND_WORDS = {
    "found": "found",
    "touched": "overlapped, but with an intersection over union of at most 0.5",
    "missed": "missed",
    "false": "false positive",
}


def lesion_kind(lesion: Lesion) -> str:
    """Returns "found" (intersection over union above 0.5), "touched" (above 0), "missed" or "false"."""
    if lesion.is_detected(DETECTED):
        return "found"
    if lesion.overlap.intersection:
        return "touched"
    return "missed" if lesion.overlap.reference else "false"


def legend() -> Markup:
    """Returns the legend for the marks in `scatter`."""
    names = {"found": "IoU > 0.5", "touched": "IoU at most 0.5", "missed": "missed", "false": "false positive"}
    marks = (
        tag("span", tag("svg", _mark(kind, 8, 8), viewBox="0 0 16 16", width=16, height=16, class_="plot"), name)
        for kind, name in names.items()
    )
    return join(*marks)


def _mark(kind, x, y, *children):
    if kind == "missed":
        path = f"M{number_text(x - 5)} {number_text(y - 5)}l10 10m0-10l-10 10"
    elif kind == "false":
        path = f"M{number_text(x)} {number_text(y - 6)}l6 11h-12z"
    else:
        return tag("circle", *children, cx=number_text(x), cy=number_text(y), r=5, class_=kind)
    return tag("path", *children, d=path, class_=kind)
