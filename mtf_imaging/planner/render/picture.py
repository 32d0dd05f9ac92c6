"""Pictures of a layout: the volume and its slices, one slice with its halo, and device memory."""

import textwrap
from collections.abc import Sequence
from pathlib import Path

from mtf_imaging.engine.program.memory import format_bytes
from mtf_imaging.files.atomic import atomic_path
from mtf_imaging.files.figures import Figure, FigureCanvasAgg, Rectangle
from mtf_imaging.planner.render import picture_volume
from mtf_imaging.planner.render.picture_boxes import Cuts, LayoutPicture
from mtf_imaging.planner.render.picture_volume import describe_processors

_DPI = 100
_HEIGHT, _HEAD, _FOOT = 560, 88, 14  # all sizes in this module are in pixels
_WIDTHS = {"volume": 520, "slice": 370, "memory": 400}


def write_picture(path: str | Path, picture: LayoutPicture) -> None:
    """Writes a layout picture as a PNG; an existing file is replaced atomically.

    Args:
      path: path of the PNG.
      picture: the contents of the picture.

    Raises:
      ShapeError: the volume does not have 1 to 3 dimensions.
    """
    canvas = _canvas(picture)
    with atomic_path(path) as temporary:
        canvas.print_png(temporary)


def _canvas(picture: LayoutPicture) -> FigureCanvasAgg:
    cuts = Cuts(tuple(picture.volume), picture.layout)
    shown = {"volume": True, "slice": max(cuts.parts.values()) > 1, "memory": bool(picture.memory)}
    widths = {name: width for name, width in _WIDTHS.items() if shown[name]}
    total = sum(widths.values())
    figure = Figure(figsize=(total / _DPI, _HEIGHT / _DPI), dpi=_DPI, facecolor="white")
    panels, left = {}, 0
    for name, width in widths.items():
        panels[name] = _panel(figure, left / total, width, total)
        left += width
    mesh, layout = picture.layout.mesh_string, picture.layout.rules_string
    title = picture.title or (f"mesh {mesh}    layout {layout}" if layout else "one processor, nothing is split")
    top = 1 - 26 / _HEIGHT
    size = min(12, 1.25 * total / len(title))  # fits a long title in one line
    figure.text(16 / total, top, title, fontsize=size, fontweight="bold", va="center")
    text = textwrap.fill(describe_processors(cuts), int(total / 7.4))
    figure.text(16 / total, top - 16 / _HEIGHT, text, fontsize=9.5, color="#444444", va="top")
    picture_volume.draw_volume(panels["volume"], cuts, picture.halo)
    if "slice" in panels:
        picture_volume.draw_slice(panels["slice"], cuts, picture.halo)
    if "memory" in panels:
        draw_memory(panels["memory"], picture)
    return FigureCanvasAgg(figure)


def _panel(figure, left, width, total):
    """Returns axes without a frame, in units of pixels."""
    height = _HEIGHT - _HEAD - _FOOT
    axes = figure.add_axes((left, _FOOT / _HEIGHT, width / total, height / _HEIGHT))
    axes.set_xlim(0, width)
    axes.set_ylim(0, height)
    axes.set_axis_off()
    return axes


# Okabe and Ito's palette without the colors of slices and halos; additional parts are gray.
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#f0e442", "#999999")
_EDGE, _TEXT = "#24405c", "#222222"


def memory_rows(kept: Sequence, recomputed: Sequence = ()) -> list[tuple[str, ...]]:
    """Returns the rows of the table below the bars: the purpose and size of each bar, and the total.

    >>> memory_rows([("weights", 2**30), ("activations", 2**31)])
    [('weights', '1.0 GiB'), ('activations', '2.0 GiB'), ('total', '3.0 GiB')]
    """
    bars = [dict(parts) for parts in (kept, recomputed) if parts]
    names = dict.fromkeys(name for bar in bars for name in bar)
    rows = [(name, *(format_bytes(bar.get(name, 0)) for bar in bars)) for name in names]
    return [*rows, ("total", *(format_bytes(sum(bar.values())) for bar in bars))]


def draw_memory(axes, picture) -> None:
    """Draws one bar for kept activations, one for recomputed activations, and a line at the device memory."""
    width, height = axes.get_xlim()[1], axes.get_ylim()[1]
    axes.text(16, height - 6, "Memory per device in training", fontsize=10.5, fontweight="bold", va="top")
    bars = [("kept", dict(picture.memory)), ("recomputed", dict(picture.memory_recomputed))]
    bars = [(name, parts) for name, parts in bars if parts]
    rows = memory_rows(picture.memory, picture.memory_recomputed)
    colors = {row[0]: _COLORS[min(i, len(_COLORS) - 1)] for i, row in enumerate(rows[:-1])}
    foot = 48 + 19 * len(rows)
    room = height - foot - 66
    most = max([picture.device_memory or 0, *(sum(parts.values()) for _, parts in bars)])
    columns = [width - 134, width - 42] if len(bars) == 2 else [width - 100]
    for (name, parts), x in zip(bars, columns):
        y = foot
        for part, number in parts.items():
            high = number / most * room if most else 0
            axes.add_patch(Rectangle((x - 26, y), 52, high, facecolor=colors[part], edgecolor="white", linewidth=0.6))
            y += high
        axes.plot([x - 34, x + 34], [foot, foot], color=_EDGE, linewidth=1)
        axes.text(x, foot - 14, name if len(bars) == 2 else "", fontsize=9, ha="center", va="center", color=_TEXT)
    _table(axes, rows, colors, columns, foot - 34)
    if picture.device_memory:
        y = foot + picture.device_memory / most * room
        axes.plot([16, width - 16], [y, y], color="black", linewidth=1.4, linestyle=(0, (5, 3)))
        text = f"{picture.device_name}:\n{format_bytes(picture.device_memory)}"
        above = y + 34 < height - 26
        axes.text(16, y + (5 if above else -5), text, fontsize=9, va="bottom" if above else "top", color="black")


def _table(axes, rows, colors, columns, y):
    for row in rows:
        weight = "normal" if row[0] in colors else "bold"
        if row[0] in colors:
            axes.add_patch(Rectangle((16, y - 6), 12, 12, facecolor=colors[row[0]]))
        axes.text(34, y, row[0], fontsize=9, va="center", color=_TEXT, fontweight=weight)
        for text, x in zip(row[1:], columns):
            axes.text(x + 34, y, text, fontsize=9, ha="right", va="center", color=_TEXT, fontweight=weight)
        y -= 19
