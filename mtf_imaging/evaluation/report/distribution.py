"""Plots of a measure over all cases: dots for a few cases, and a histogram for many."""

import dataclasses
import math
from collections.abc import Sequence

from mtf_imaging.evaluation.report.histogram import choose_bins, histogram
from mtf_imaging.evaluation.report.markup import Markup, tag
from mtf_imaging.evaluation.report.svg import BOTTOM, RIGHT, TOP, WIDTH, line, number_text, svg, text

MAX_DOTS = 12
_ROW = 30  # pixels
_CHARACTER, _MAX_CHARACTERS = 10, 18  # pixels per character, and characters of a name that fit


@dataclasses.dataclass(frozen=True)
class Dot:
    """One case.

    Attributes:
      name: the case name.
      value: its Dice, or another measure from 0 to 1.
      href: the link to its pictures; None for no link.
    """

    name: str
    value: float
    href: str | None = None


def distribution(dots: Sequence[Dot], name: str, measure: str = "Dice", noun: str = "case") -> Markup:
    """Plots a measure of each case and its mean, as dots for up to `MAX_DOTS` cases, else as a histogram.

    Args:
      dots: one or more cases.
      name: the mask name.
      measure: the measure name.
      noun: a noun for the cases.
    """
    if len(dots) > MAX_DOTS:
        return histogram([dot.value for dot in dots], name, measure, noun)
    start, _, count = choose_bins([dot.value for dot in dots])
    left = 16 + _CHARACTER * min(_MAX_CHARACTERS, max(len(dot.name) for dot in dots))
    bottom = TOP + _ROW * len(dots)

    def x(value):
        return left + (WIDTH - RIGHT - left) * (value - start) / (1 - start)

    parts = []
    for row, dot in enumerate(sorted(dots, key=lambda dot: dot.value)):
        y = TOP + _ROW * (row + 0.5)
        title = tag("title", f"{noun} {dot.name}: {measure} {dot.value:.3f}")
        mark = tag("circle", title, cx=number_text(x(dot.value)), cy=number_text(y), r=7, class_="found")
        parts += [line(left, y, WIDTH - RIGHT, y), text(left - 10, y + 6, _shorten(dot.name), "end")]
        parts.append(tag("a", mark, href=dot.href) if dot.href else mark)
    every = max(1, round(count / 5))
    for index in range(0, count - every + 1, every):  # leaves room for the label 1.00
        value = start + index * (1 - start) / count
        parts += [line(x(value), TOP, x(value), bottom), text(x(value), bottom + 24, f"{value:.2f}")]
    mean = math.fsum(dot.value for dot in dots) / len(dots)
    parts += [text(WIDTH - RIGHT, bottom + 24, "1.00", "end"), line(x(mean), TOP, x(mean), bottom, "limit")]
    is_right = x(mean) > (left + WIDTH) / 2
    parts.append(text(x(mean), TOP - 8, f"mean {mean:.3f}", "end" if is_right else "start"))
    parts.append(text((left + WIDTH - RIGHT) / 2, bottom + BOTTOM - 8, f"{name} {measure} per {noun}"))
    return svg(f"{name} {measure} of each {noun}", *parts, height=bottom + BOTTOM)


def _shorten(name: str) -> str:
    return name if len(name) <= _MAX_CHARACTERS else f"{name[: _MAX_CHARACTERS - 1]}\N{HORIZONTAL ELLIPSIS}"
