"""Draws docs/pictures/segmented_slices.png: one CT of the demo, its slices with their halos, and its segmentation.

    mtf-imaging demo --output_dir demo
    python -m benchmarks.segmented_slices_picture --demo_dir demo

The slices are the same as in the demo: 64 x 64 x 64 voxels on 4 x 4 processors, with the halo of a convolution with a
kernel of 3 x 3 x 3 voxels.
"""

import argparse
from pathlib import Path

import nibabel
import numpy as np
from scipy import ndimage

from mtf_imaging.engine.layout import Layout
from mtf_imaging.engine.layout.windows import Window, plan_split
from mtf_imaging.files.atomic import atomic_path
from mtf_imaging.files.figures import Figure, FigureCanvasAgg

SIZE = 64  # voxels along each dimension in the demo
LAYOUT = Layout.parse("rows:4,cols:4", "x:rows,y:cols")
_HU = {"cmap": "gray", "vmin": -160, "vmax": 240}
_HALO, _LIVER, _LESION = "#0072b2", "#3ccbff", "#ff9d00"
_PANEL_INCHES = (4.5, 4.5, 0.55)  # width, height, and height of a title
_GAP = 5.5  # voxels between two slices in the picture


def read_volume(path: Path) -> np.ndarray:
    """Returns the voxels [x, y, z] of a NIfTI file; x starts at the patient's right, as radiology shows it."""
    return nibabel.as_closest_canonical(nibabel.load(path)).get_fdata(dtype=np.float32)[::-1]


def draw(image: np.ndarray, labels: np.ndarray, spacing: tuple[float, float], path: Path) -> None:
    """Writes the picture of one plane.

    Args:
      image: HU, [x, y].
      labels: the segmentation with 0 background, 1 liver and 2 lesion, [x, y].
      spacing: mm along x and y.
      path: PNG file to write.
    """
    width, height, title = _PANEL_INCHES
    figure = Figure(figsize=(3 * width, height + title), dpi=100, facecolor="white")
    share = height / (height + title)
    plain, split, segmented = (figure.add_axes((n / 3 + 0.005, 0.01, 1 / 3 - 0.01, share - 0.02)) for n in range(3))
    extent = (0, image.shape[0] * spacing[0], 0, image.shape[1] * spacing[1])
    for panel in (plain, segmented):
        panel.imshow(image.T, origin="lower", extent=extent, interpolation="bilinear", **_HU)
    for label, color in ((1, _LIVER), (2, _LESION)):
        mask = (labels >= label).T
        segmented.contourf(mask, [0.5, 1.5], colors=[color], alpha=0.25, extent=extent)
        segmented.contour(mask, [0.5], colors=[color], linewidths=1.6, extent=extent)
    _draw_slices(split, ndimage.zoom(image, [SIZE / size for size in image.shape], order=1))
    titles = (
        (plain, "a CT"),
        (split, "its 16 slices with their halos"),
        (segmented, "its liver and lesions"),
    )
    for number, (panel, words) in enumerate(titles):
        figure.text((number + 0.5) / 3, share + 0.02, words, ha="center", fontsize=21)
        panel.set_anchor("C")
        panel.set_axis_off()
    with atomic_path(path) as temporary:
        FigureCanvasAgg(figure).print_png(temporary)


def _draw_slices(panel, image):
    """Draws each slice of [x, y] with the voxels of its neighbors that a convolution reads."""
    slices = LAYOUT.slices_per_dimension
    plans = [plan_split(Window(kernel=3), SIZE, slices[dim]) for dim in ("x", "y")]
    bounds = [np.linspace(0, SIZE, slices[dim] + 1).astype(int) for dim in ("x", "y")]
    for column in range(slices["x"]):
        for row in range(slices["y"]):
            begin, end = zip(*((edges[n], edges[n + 1]) for edges, n in zip(bounds, (column, row))))
            at = [first + _GAP * n for first, n in zip(begin, (column, row))]
            low = [max(0, first - plan.before) for first, plan in zip(begin, plans)]
            high = [min(SIZE, last + plan.after) for last, plan in zip(end, plans)]
            left, bottom = (place - (first - wide) for place, first, wide in zip(at, begin, low))
            width, height = (last - first for first, last in zip(low, high))
            box = (left, left + width, bottom, bottom + height)
            panel.imshow(image[low[0] : high[0], low[1] : high[1]].T, origin="lower", extent=box, **_HU)
            halo = np.full((width, height), 0.55)
            halo[tuple(slice(a - b, c - b) for a, b, c in zip(begin, low, end))] = 0
            tint = np.zeros((height, width, 4))
            tint[..., :3], tint[..., 3] = [int(_HALO[n : n + 2], 16) / 255 for n in (1, 3, 5)], halo.T
            panel.imshow(tint, origin="lower", extent=box, interpolation="nearest")
    panel.set_xlim(0, SIZE + _GAP * (slices["x"] - 1))
    panel.set_ylim(0, SIZE + _GAP * (slices["y"] - 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo_dir", type=Path, default="demo", help="folder of a finished demo")
    parser.add_argument("--case", default="15", help="a held-out case")
    parser.add_argument("--output", type=Path, default="docs/pictures/segmented_slices.png", help="PNG file to write")
    arguments = parser.parse_args()
    volume = arguments.demo_dir / f"cases/volume-{arguments.case}.nii.gz"
    labels = read_volume(arguments.demo_dir / f"evaluation/predictions/segmentation-{arguments.case}.nii.gz")
    z = int(np.count_nonzero(labels == 2, axis=(0, 1)).argmax())
    spacing = nibabel.as_closest_canonical(nibabel.load(volume)).header.get_zooms()
    draw(read_volume(volume)[..., z], labels[..., z], spacing[:2], arguments.output)


if __name__ == "__main__":
    main()
