"""Pictures of a case: CT, reference and prediction side by side in three planes."""

from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from mtf_imaging.evaluation.report.planes import DISPLAY_HU, PLANES, Plane, find_focus
from mtf_imaging.files.atomic import atomic_path

_POSITION_DIGITS = 6  # decimals of figure coordinates: a thousandth of a pixel
_COLORS = {1: "#35d04f", 2: "#ff3b30"}


def write_picture(
    path: str | Path,
    hu: np.ndarray,
    reference: np.ndarray,
    prediction: np.ndarray,
    spacing: tuple[float, float, float],
    title: str,
) -> None:
    """Writes the picture of a case as a PNG; an existing file is replaced atomically.

    Args:
      path: path of the PNG.
      hu: CT `[x, y, z]` in canonical axes.
      reference: labels `[x, y, z]` of the reference.
      prediction: labels `[x, y, z]` of the prediction.
      spacing: voxel size in mm.
      title: the title of the picture, for instance the case and its Dice.
    """
    with atomic_path(path) as temporary:
        _canvas(hu, reference, prediction, spacing, title).print_png(temporary)


def picture_pixels(
    hu: np.ndarray,
    reference: np.ndarray,
    prediction: np.ndarray,
    spacing: tuple[float, float, float],
    title: str,
) -> np.ndarray:
    """Draws one row for each plane through the voxel that `find_focus` returns.

    Args:
      hu: CT `[x, y, z]` in canonical axes.
      reference: labels `[x, y, z]` of the reference; the liver is outlined in green, lesions in red.
      prediction: labels `[x, y, z]` of the prediction.
      spacing: voxel size in mm; preserves the patient's proportions.
      title: the title of the picture, for instance the case and its Dice.

    Returns:
      The picture, uint8 `[height, width, 3]`.
    """
    canvas = _canvas(hu, reference, prediction, spacing, title)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _canvas(hu, reference, prediction, spacing, title) -> FigureCanvasAgg:
    point = find_focus(reference, prediction).point
    heights = [hu.shape[p.up] * spacing[p.up] / (hu.shape[p.left] * spacing[p.left]) for p in PLANES]
    figure = Figure(figsize=(10.5, 3.5 * sum(heights) + 0.8), dpi=90, layout="constrained")
    figure.suptitle(title)
    grid = figure.subplots(3, 3, height_ratios=heights)
    columns = (("CT", None), ("reference", reference), ("prediction", prediction))
    for row, plane in zip(grid, PLANES, strict=True):
        for axes, (name, labels) in zip(row, columns, strict=True):
            _draw(axes, hu, labels, spacing, point, plane)
            axes.set_title(f"{name}, {plane.name}", fontsize=9)
    canvas = FigureCanvasAgg(figure)
    _fix_layout(figure)
    return canvas


def _fix_layout(figure: Figure) -> None:
    """Computes the layout of the figure and rounds the positions, so that equal inputs produce equal bytes.

    The last bits of the solution depend on the memory addresses of the solver's variables. Without rounding, a few
    pixels differ.
    """
    figure.get_layout_engine().execute(figure)
    figure.set_layout_engine("none")
    for axes in figure.axes:
        axes.set_position([round(part, _POSITION_DIGITS) for part in axes.get_position(original=True).bounds])


def _draw(axes, hu, labels, spacing, point, plane: Plane) -> None:
    index = point[plane.across]
    low, high = DISPLAY_HU
    aspect = spacing[plane.up] / spacing[plane.left]
    axes.imshow(plane.cut(hu, index), cmap="gray", vmin=low, vmax=high, aspect=aspect, interpolation="nearest")
    axes.set_axis_off()
    for label, color in _COLORS.items() if labels is not None else ():
        mask = plane.cut(labels, index) >= label
        if mask.any() and not mask.all():
            axes.contour(mask, levels=[0.5], colors=[color], linewidths=0.9)
