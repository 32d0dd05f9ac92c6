"""Pictures of a case: CT, reference and prediction side by side, in three planes."""

from typing import TYPE_CHECKING

import numpy as np

from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.images.sources import VoxelSource
from mtf_imaging.evaluation.report.colors import mask_colors
from mtf_imaging.evaluation.volume_report.image_planes import read_planes, shows_ct
from mtf_imaging.evaluation.volume_report.planes import Plane, find_focus, shown_planes
from mtf_imaging.evaluation.volume_scores.voxels import Voxels

if TYPE_CHECKING:
    from mtf_imaging.files.figures import Figure

_POSITION_DIGITS = 6  # decimals of figure coordinates: a thousandth of a pixel


def picture_pixels(
    hu: VoxelSource,
    reference: Voxels,
    prediction: Voxels,
    spacing: tuple[float, float, float],
    title: str,
    description: Description = LITS,
) -> np.ndarray:
    """Draws one row for each plane through the voxel that `find_focus` returns.

    Args:
      hu: the source of the first channel of the image, which is read once; see `read_planes`.
      reference: labels `[x, y, z]` of the reference; in LiTS the liver is outlined in green, lesions in red.
      prediction: labels `[x, y, z]` of the prediction.
      spacing: voxel size in mm; preserves the patient's proportions.
      title: the title of the picture, for instance the case and its Dice.
      description: the meaning of the labels and channels.

    Returns:
      The picture, uint8 `[height, width, 3]`.
    """
    # Imported here, because the import takes longer than a small step, and training starts without pictures.
    from mtf_imaging.files.figures import Figure, FigureCanvasAgg

    point = find_focus(reference, prediction, description).point
    image = read_planes(hu, point, description)
    planes = shown_planes(image.shape, description)
    heights = [image.shape[p.up] * spacing[p.up] / (image.shape[p.left] * spacing[p.left]) for p in planes]
    figure = Figure(figsize=(10.5, 3.5 * sum(heights) + 0.8), dpi=90, layout="constrained")
    figure.suptitle(title)
    grid = figure.subplots(len(planes), 3, height_ratios=heights, squeeze=False)
    first = "CT" if shows_ct(description) else description.channels[0]
    columns = ((first, None), ("reference", reference), ("prediction", prediction))
    for row, plane in zip(grid, planes, strict=True):
        for axes, (name, labels) in zip(row, columns, strict=True):
            _draw(axes, image, labels, spacing, point, plane, description)
            axes.set_title(f"{name}, {plane.name}", fontsize=9)
    canvas = FigureCanvasAgg(figure)
    _fix_layout(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _fix_layout(figure: "Figure") -> None:
    """Computes the layout of the figure and rounds the positions, so that equal inputs produce equal bytes.

    The last bits of the solution depend on the memory addresses of the solver's variables. Without rounding, a few
    pixels differ.
    """
    figure.get_layout_engine().execute(figure)
    figure.set_layout_engine("none")
    for axes in figure.axes:
        axes.set_position([round(part, _POSITION_DIGITS) for part in axes.get_position(original=True).bounds])


def _draw(axes, image, labels, spacing, point, plane: Plane, description: Description) -> None:
    index = point[plane.across]
    low, high = image.bounds
    aspect = spacing[plane.up] / spacing[plane.left]
    axes.imshow(plane.cut(image, index), cmap="gray", vmin=low, vmax=high, aspect=aspect, interpolation="nearest")
    axes.set_axis_off()
    for name, color in mask_colors(description).items() if labels is not None else ():
        mask = description.mask(name, plane.cut(labels, index))
        if mask.any() and not mask.all():
            axes.contour(mask, levels=[0.5], colors=[color], linewidths=0.9)
