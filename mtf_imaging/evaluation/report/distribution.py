"""Plots of a measure over all cases: dots for a few cases, and a histogram for many."""

import dataclasses
import itertools
import math
from collections.abc import Sequence

from mtf_imaging.evaluation.report.markup import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Markup,
    line,
    number_text,
    svg,
    tag,
    text,
)
from mtf_imaging.plain_text import counted

MAX_DOTS = 12
_ROW = 30  # pixels
_CHARACTER, _MAX_CHARACTERS = 10, 18  # pixels per character, and characters of a name that fit
_BIN_WIDTHS = (0.01, 0.02, 0.05)
_MAX_BINS = 20


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


@dataclasses.dataclass(frozen=True)
class _Axis:
    """The horizontal axis of a plot, in bins up to 1.

    Attributes:
      values: the values to plot.
      left: the position of its start, in pixels.
      bottom: the lower end of the data area.
    """

    values: Sequence[float]
    left: float
    bottom: float

    @property
    def width(self) -> float:
        """The width of a bin."""
        span = 1 - min(self.values)
        return next((width for width in _BIN_WIDTHS if span / width <= _MAX_BINS), _BIN_WIDTHS[-1])

    @property
    def count(self) -> int:
        """The number of bins."""
        return max(5, math.ceil((1 - min(self.values)) / self.width - 1e-9))

    @property
    def start(self) -> float:
        return 1 - self.count * self.width

    def x(self, value: float) -> float:
        """Returns the position of a value."""
        return self.left + (WIDTH - RIGHT - self.left) * (value - self.start) / (1 - self.start)

    def draw(self, title: str, has_grid: bool) -> list[Markup]:
        """Returns the labels, the mean with a line, the title, and vertical grid lines if the plot has them."""
        parts = []
        every = max(1, round(self.count / 5))
        for index in range(0, self.count - every + 1, every):  # leaves room for the label 1.00
            value = self.start + index * self.width
            parts.append(text(self.x(value), self.bottom + 24, f"{value:.2f}"))
            if has_grid:
                parts.append(line(self.x(value), TOP, self.x(value), self.bottom))
        mean = math.fsum(self.values) / len(self.values)
        at = self.x(mean)
        anchor, gap = ("end", -6) if at > (self.left + WIDTH) / 2 else ("start", 6)
        return [
            *parts,
            text(WIDTH - RIGHT, self.bottom + 24, "1.00", "end"),
            line(at, TOP, at, self.bottom, "limit"),
            text(at + gap, TOP - 8, f"mean {mean:.3f}", anchor),
            text((self.left + WIDTH - RIGHT) / 2, self.bottom + BOTTOM - 8, title),
        ]


def distribution(dots: Sequence[Dot], name: str, measure: str = "Dice", noun: str = "case") -> Markup:
    """Plots a measure of each case and its mean, as dots for up to `MAX_DOTS` cases, else as a histogram.

    Args:
      dots: one or more cases.
      name: the mask name.
      measure: the measure name.
      noun: a noun for the cases.
    """
    values, title = [dot.value for dot in dots], f"{name} {measure} per {noun}"
    if len(dots) > MAX_DOTS:
        axis = _Axis(values, LEFT, HEIGHT - BOTTOM)
        return svg(f"{name} {measure}: number of {noun}s", *_bars(axis, noun), *axis.draw(title, has_grid=False))
    left = 16 + _CHARACTER * min(_MAX_CHARACTERS, max(len(dot.name) for dot in dots))
    axis = _Axis(values, left, TOP + _ROW * len(dots))
    parts = []
    for row, dot in enumerate(sorted(dots, key=lambda dot: dot.value)):
        y = TOP + _ROW * (row + 0.5)
        hint = tag("title", f"{noun} {dot.name}: {measure} {dot.value:.3f}")
        mark = tag("circle", hint, cx=number_text(axis.x(dot.value)), cy=number_text(y), r=7, class_="found")
        parts += [line(left, y, WIDTH - RIGHT, y), text(left - 10, y + 6, _shorten(dot.name), "end")]
        parts.append(tag("a", mark, href=dot.href) if dot.href else mark)
    parts += axis.draw(title, has_grid=True)
    return svg(f"{name} {measure} of each {noun}", *parts, height=axis.bottom + BOTTOM)


def _bars(axis: _Axis, noun: str) -> list[Markup]:
    """Returns the bars of a histogram with a scale of counts."""
    bins = [0] * axis.count
    for value in axis.values:
        bins[min(axis.count - 1, max(0, math.floor((value - axis.start) / axis.width + 1e-9)))] += 1
    top, room = max(bins), axis.bottom - TOP
    parts = []
    step = next(n * 10**power for power in itertools.count() for n in (1, 2, 5) if n * 10**power * 6 > top)
    for number in range(0, top + 1, step):
        at = axis.bottom - room * number / top
        parts += [line(LEFT, at, WIDTH - RIGHT, at), text(LEFT - 8, at + 5, number, "end")]
    for index, number in enumerate(bins):
        low, up = (axis.start + at * axis.width for at in (index, index + 1))
        height = room * number / top
        box = {"x": axis.x(low) + 1, "y": axis.bottom - height, "width": axis.x(up) - axis.x(low) - 2, "height": height}
        hint = tag("title", f"{counted(number, noun)} from {low:.2f} to {up:.2f}")
        parts.append(tag("rect", hint, **{key: number_text(value) for key, value in box.items()}, class_="bar"))
    return parts


def _shorten(name: str) -> str:
    return name if len(name) <= _MAX_CHARACTERS else f"{name[: _MAX_CHARACTERS - 1]}\N{HORIZONTAL ELLIPSIS}"
