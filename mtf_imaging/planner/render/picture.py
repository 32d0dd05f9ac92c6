"""Pictures of a layout: the volume and its slices, one slice with its halo, and device memory."""

import textwrap
from pathlib import Path

from mtf_imaging.files.atomic import atomic_path
from mtf_imaging.files.figures import Figure, FigureCanvasAgg
from mtf_imaging.planner.render import picture_memory, picture_volume
from mtf_imaging.planner.render.layout_picture import LayoutPicture
from mtf_imaging.planner.render.picture_boxes import Cuts
from mtf_imaging.planner.render.picture_words import describe_processors

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
        picture_memory.draw_memory(panels["memory"], picture)
    return FigureCanvasAgg(figure)


def _panel(figure, left, width, total):
    """Returns axes without a frame, in units of pixels."""
    height = _HEIGHT - _HEAD - _FOOT
    axes = figure.add_axes((left, _FOOT / _HEIGHT, width / total, height / _HEIGHT))
    axes.set_xlim(0, width)
    axes.set_ylim(0, height)
    axes.set_axis_off()
    return axes
