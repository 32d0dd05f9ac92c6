"""A picture of a case: CT, reference and prediction side by side, in three planes."""

from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from scipy import ndimage

from mtf_imaging.data.atomic import atomic_path

_DISPLAY_HU = (-160, 240)  # the abdominal window of radiology
_COLORS = {1: "#35d04f", 2: "#ff3b30"}
# name, the axis cut across, the axes drawn to the right and upward, whether the one to the right is mirrored.
# By convention the viewer looks from the feet or at the face, so the patient's right is on the left.
_PLANES = (("axial", 2, 0, 1, True), ("coronal", 1, 0, 2, True), ("sagittal", 0, 1, 2, False))


def write_picture(
    path: str | Path,
    hu: np.ndarray,
    reference: np.ndarray,
    prediction: np.ndarray,
    spacing: tuple[float, float, float],
    title: str,
) -> None:
    """Writes the picture of a case as a PNG, whole or not at all.

    Args:
      path: file to write.
      hu, reference, prediction, spacing, title: as of `picture_pixels`.
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
    """Draws a row for each plane through the largest lesion, or through the middle of the liver.

    Args:
      hu: CT `[x, y, z]` in canonical axes.
      reference: labels `[x, y, z]` of the reference; liver is outlined in green, lesions in red.
      prediction: labels `[x, y, z]` of the prediction.
      spacing: voxel size in mm, so that the picture has the patient's proportions.
      title: for instance the case and its Dice.

    Returns:
      The picture, uint8 `[height, width, 3]`.
    """
    canvas = _canvas(hu, reference, prediction, spacing, title)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _canvas(hu, reference, prediction, spacing, title) -> FigureCanvasAgg:
    point = focus(reference if reference.any() else prediction)
    heights = [hu.shape[up] * spacing[up] / (hu.shape[right] * spacing[right]) for _, _, right, up, _ in _PLANES]
    figure = Figure(figsize=(10.5, 3.5 * sum(heights) + 0.8), dpi=90, layout="constrained")
    figure.suptitle(title)
    grid = figure.subplots(3, 3, height_ratios=heights)
    columns = (("CT", None), ("reference", reference), ("prediction", prediction))
    for row, plane in zip(grid, _PLANES, strict=True):
        for axes, (name, labels) in zip(row, columns, strict=True):
            _draw(axes, hu, labels, spacing, point, plane)
            axes.set_title(f"{name}, {plane[0]}", fontsize=9)
    return FigureCanvasAgg(figure)


def focus(labels: np.ndarray) -> tuple[int, int, int]:
    """The voxel to show: the middle of the largest lesion, of the liver where there is none, else of the volume."""
    parts, count = ndimage.label(labels == 2)
    mask = parts == 1 + np.argmax(np.bincount(parts.ravel())[1:]) if count else labels >= 1
    if not mask.any():
        return tuple(size // 2 for size in labels.shape)
    voxels = np.argwhere(mask)  # the voxel nearest to the mean: the mean itself may lie outside a bent mask
    return tuple(voxels[np.argmin(((voxels - voxels.mean(0)) ** 2).sum(1))].tolist())


def _draw(axes, hu, labels, spacing, point, plane) -> None:
    _, across, right, up, mirrored = plane

    def cut(array):
        flat = np.take(array, point[across], axis=across).T  # [up, right]
        return flat[:, ::-1] if mirrored else flat

    low, high = _DISPLAY_HU
    aspect = spacing[up] / spacing[right]
    axes.imshow(cut(hu), cmap="gray", vmin=low, vmax=high, origin="lower", aspect=aspect, interpolation="nearest")
    axes.set_axis_off()
    for label, color in _COLORS.items() if labels is not None else ():
        mask = cut(labels) >= label
        if mask.any() and not mask.all():
            axes.contour(mask, levels=[0.5], colors=[color], linewidths=0.9)
