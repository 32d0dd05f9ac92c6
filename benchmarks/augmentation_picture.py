"""Draws docs/pictures/augmentation.png: the effect of each `Augmentation` option on a slice of a synthetic case.

    python -m benchmarks.augmentation_picture --output docs/pictures/augmentation.png

The strengths make the effect visible. Green outlines show the liver and red outlines the lesions, from the labels of
the same sample. The blue lines were straight before the augmentation and a tenth of the field of view apart.
"""

import argparse
import io
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from mtf_imaging.data.augmentation import Augmentation
from mtf_imaging.data.phantom.phantom import write_phantom
from mtf_imaging.data.records.convert import convert
from mtf_imaging.data.records.data_set import Records
from mtf_imaging.evaluation.report.colors import LITS_COLORS

GRID, WINDOW, SEED = "x:160,y:160,z:48", (-160.0, 240.0), 0
COLUMNS, COLORS, SAMPLES = 6, 96, 8
PANELS = [
    ("as recorded", {}),
    ("flips = ('x',)", {"flips": ("x",)}),
    ("half_turn = 1", {"half_turn": 1.0}),
    ("rotation = (0, 0, 20)", {"rotation": (0, 0, 20)}),
    ("zoom = 0.3", {"zoom": 0.3}),
    ("translation = 0.12", {"translation": 0.12}),
    ("elastic = 0.05", {"elastic": 0.05}),
    ("blur = 1", {"blur": 1.0, "blur_sd": (2.0, 2.0)}),
    ("low_resolution = 1", {"low_resolution": 1.0, "low_resolution_size": (0.25, 0.25)}),
    ("class_shift = 0.1", {"class_shift": 0.1}),
    ("corruption = 0.3", {"corruption": 0.3}),
    ("gamma = 0.8", {"gamma": 0.8}),
    ("contrast = 0.4", {"contrast": 0.4}),
    ("brightness = 0.2", {"brightness": 0.2}),
    ("noise = 0.08", {"noise": 0.08}),
    ("multiscale_noise = 0.1", {"multiscale_noise": 0.1, "multiscale_noise_scales": (1, 4, 16)}),
    ("lesions = 1", {"lesions": 1.0, "lesion_diameter": (6, 20), "lesion_contrast": (0.1, 0.2)}),
    (
        "all at once",
        {
            "lesions": 1.0,
            "lesion_diameter": (6, 20),
            "lesion_contrast": (0.1, 0.2),
            "flips": ("x",),
            "rotation": (0, 0, 15),
            "zoom": 0.1,
            "elastic": 0.02,
            "corruption": 0.15,
            "gamma": 0.3,
            "multiscale_noise": 0.08,
        },
    ),
]
_WARPS = {"rotation", "zoom", "translation", "elastic"}


def samples(records, options):
    """Yields image, x, y, 1 and labels of the slice `[x, y]` with the most lesion voxels, for a few samples."""
    batch = next(Records(WINDOW).training_batches(records, 1, SEED))
    record, marked = batch["image"][0], batch["labels"][0]
    x, y = (tf.linspace(0.0, 1.0, n) for n in record.shape[:2])
    ruled = (tf.broadcast_to(at, record.shape) for at in (x[:, None, None, None], y[:, None, None], 1.0))
    record, augmentation = tf.concat([record, *ruled], 3), Augmentation(**options)
    augmented = tf.function(lambda number: augmentation(record, marked, SEED, number), autograph=False)
    for number in range(SAMPLES):
        image, labels = (part.numpy() for part in augmented(tf.constant(number, tf.int64)))
        z = max(range(labels.shape[2]), key=lambda at: ((labels[..., at] == 2).sum(), (labels[..., at] == 1).sum()))
        yield [*np.moveaxis(image[:, :, z], 2, 0), labels[..., z]]


def difference(one, other):
    """Returns the visual difference between two samples, dominated by their labels."""
    return np.abs(one[0] - other[0]).mean() + (one[-1] != other[-1]).mean()


def draw(axes, shown, title, lines):
    """Draws one panel in radiological orientation."""
    image, x, y, inside, labels = (plane.T[::-1, ::-1] for plane in shown)
    axes.imshow(image, cmap="gray", vmin=0, vmax=1, interpolation="bilinear")
    for at in (x, y) if lines else ():
        at = np.where(inside > 0.99, at, np.nan)
        axes.contour(at, levels=np.arange(1, 10) / 10, colors=["#58a6ff"], linewidths=0.5, alpha=0.8)
    for label, color in enumerate(LITS_COLORS.values(), start=1):
        mask = labels >= label
        if mask.any() and not mask.all():
            axes.contour(mask, levels=[0.5], colors=[color], linewidths=1.0)
    axes.set_title(title, fontsize=8.5, family="monospace", pad=3)
    axes.set_axis_off()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default="docs/pictures/augmentation.png", help="PNG file to write")
    parser.add_argument("--case", type=int, default=0, help="number of the synthetic case")
    arguments = parser.parse_args()
    figure = Figure(figsize=(2.1 * COLUMNS, 2.2 * -(-len(PANELS) // COLUMNS)), dpi=100, layout="constrained")
    with tempfile.TemporaryDirectory() as folder:
        write_phantom(Path(folder) / "cases", 1, seed=0, first_case=arguments.case)
        convert(Path(folder) / "cases", Path(folder) / "records", GRID, progress=False)
        recorded = next(samples(Path(folder) / "records", {}))
        for axes, (title, options) in zip(figure.subplots(-(-len(PANELS) // COLUMNS), COLUMNS).flat, PANELS):
            # The sample that differs most from the record, because many samples are hardly augmented.
            shown = max(samples(Path(folder) / "records", options), key=lambda sample: difference(sample, recorded))
            draw(axes, shown, title, title.split()[0] in _WARPS)
    stream = io.BytesIO()
    FigureCanvasAgg(figure).print_png(stream)
    # The picture has few colors, and a palette makes the file a third as large.
    Image.open(stream).convert("RGB").quantize(COLORS, dither=Image.Dither.NONE).save(arguments.output, optimize=True)
    print(f"{arguments.output}: {Path(arguments.output).stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
