"""Histograms of a measure."""

import itertools
import math

from mtf_imaging.evaluation.report.markup import Markup, tag
from mtf_imaging.evaluation.report.shell import counted
from mtf_imaging.evaluation.report.svg import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, line, number_text, svg, text

_BIN_WIDTHS = (0.01, 0.02, 0.05)
_MAX_BINS = 20


def choose_bins(values: list[float]) -> tuple[float, float, int]:
    """Returns the start of the first bin, the bin width and the number of bins; the last bin ends at 1."""
    lowest = min(values)
    width = next((w for w in _BIN_WIDTHS if (1 - lowest) / w <= _MAX_BINS), _BIN_WIDTHS[-1])
    count = max(5, math.ceil((1 - lowest) / width - 1e-9))
    return 1 - count * width, width, count


def histogram(values: list[float], name: str, measure: str = "Dice", noun: str = "case") -> Markup:
    """Plots the number of cases by Dice, with the mean Dice.

    Args:
      values: the Dice of each case, or another measure from 0 to 1.
      name: the mask name.
      measure: the measure name.
      noun: a noun for the cases.
    """
    start, width, count = choose_bins(values)
    bins = [0] * count
    for value in values:
        bins[min(count - 1, max(0, math.floor((value - start) / width + 1e-9)))] += 1
    top = max(bins)
    bottom, each = HEIGHT - BOTTOM, (WIDTH - LEFT - RIGHT) / count

    def x(value):
        return LEFT + (value - start) / width * each

    parts = []
    step = next(n * 10**power for power in itertools.count() for n in (1, 2, 5) if n * 10**power * 6 > top)
    for number in range(0, top + 1, step):
        at = bottom - (bottom - TOP) * number / top
        parts += [line(LEFT, at, WIDTH - RIGHT, at), text(LEFT - 8, at + 5, number, "end")]
    every = max(1, round(count / 5))
    for index, number in enumerate(bins):
        high = (bottom - TOP) * number / top
        low, up = start + index * width, start + (index + 1) * width
        title = tag("title", f"{counted(number, noun)} from {low:.2f} to {up:.2f}")
        box = {
            "x": number_text(LEFT + index * each + 1),
            "y": number_text(bottom - high),
            "width": number_text(each - 2),
            "height": number_text(high),
        }
        parts.append(tag("rect", title, **box, class_="bar"))
        if index % every == 0 and index + every <= count:  # leaves room for the label 1.00
            parts.append(text(LEFT + index * each, bottom + 24, f"{low:.2f}"))
    mean = math.fsum(values) / len(values)
    parts += [text(WIDTH - RIGHT, bottom + 24, "1.00", "end"), line(x(mean), TOP, x(mean), bottom, "limit")]
    left = x(mean) > WIDTH / 2
    parts.append(text(x(mean) + (-6 if left else 6), TOP - 8, f"mean {mean:.3f}", "end" if left else "start"))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, f"{name} {measure} per {noun}"))
    return svg(f"{name} {measure}: number of {noun}s", *parts)
