"""SVG plots of precision against recall."""

from collections.abc import Mapping

import numpy as np

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

_TICKS = (0, 0.2, 0.4, 0.6, 0.8, 1)


def precision_recall(curves: Mapping[str, np.ndarray], title: str) -> Markup:
    """Plots precision against recall.

    Args:
      curves: the precision at evenly spaced recalls from 0 to 1, by CSS class of the curve, such as "ap50".
      title: the title of the plot.
    """
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT

    def x(recall: float) -> float:
        return LEFT + (right - LEFT) * recall

    def y(precision: float) -> float:
        return bottom - (bottom - TOP) * precision

    parts = []
    for tick in _TICKS:
        parts += [line(x(tick), TOP, x(tick), bottom), text(x(tick), bottom + 24, f"{tick:g}")]
        parts += [line(LEFT, y(tick), right, y(tick)), text(LEFT - 8, y(tick) + 5, f"{tick:g}", "end")]
    parts += [text((LEFT + right) / 2, HEIGHT - 8, "recall"), text(LEFT, TOP - 10, f"precision, {title}", "start")]
    for name, values in curves.items():
        recalls = np.linspace(0, 1, len(values))
        changes = np.diff(values) != 0
        is_corner = np.concatenate([[True], changes]) | np.concatenate([changes, [True]])  # the others lie on a line
        points = zip(recalls[is_corner], values[is_corner], strict=True)
        path = "L".join(f"{number_text(x(recall))} {number_text(y(value))}" for recall, value in points)
        parts.append(tag("path", d=f"M{path}", class_=f"curve {name}"))
    return svg(f"Precision by recall: {title}", *parts)


def curve_legend(names: Mapping[str, str]) -> Markup:
    """Returns the legend of the curves.

    Args:
      names: the text of each curve by CSS class.
    """
    sample = {"viewBox": "0 0 24 16", "width": 24, "height": 16, "class_": "plot"}
    return join(
        *(
            tag("span", tag("svg", tag("path", d="M0 8h24", class_=f"curve {name}"), **sample), what)
            for name, what in names.items()
        )
    )
