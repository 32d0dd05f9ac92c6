"""Draws docs/pictures/context_phantoms.png: the phantoms of the context study, with their labels.

python -m benchmarks.context_study.picture
"""

import argparse

import numpy as np

from benchmarks.context_study.phantoms import PHANTOMS
from mtf_imaging.files.atomic import atomic_path
from mtf_imaging.files.figures import Figure, FigureCanvasAgg

SEEDS = (1, 2)
_COLORS = np.array([(0, 0, 0, 0), (238, 119, 51, 255), (51, 187, 238, 255)], np.uint8)  # none, label 1, label 2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default="docs/pictures/context_phantoms.png", help="PNG file to write")
    output = parser.parse_args().output
    figure = Figure(figsize=(9, 1.35 * len(PHANTOMS) * len(SEEDS)), dpi=90, layout="constrained")
    axes = iter(figure.subplots(len(PHANTOMS) * len(SEEDS), 1, sharex=True))
    for name, kind in PHANTOMS.items():
        for seed in SEEDS:
            patient, panel = kind.paint(np.random.default_rng(seed)), next(axes)
            z = np.count_nonzero(patient.labels, axis=(0, 1)).argmax()
            image, labels = patient.channels[0][:, :, z], patient.labels[:, :, z]
            panel.imshow(image.T, cmap="gray", origin="lower")
            edges = labels * (labels != np.roll(labels, 1, axis=0)) + labels * (labels != np.roll(labels, -1, axis=0))
            panel.imshow(_COLORS[np.where(edges > 0, labels, 0)].swapaxes(0, 1), origin="lower")
            panel.set_yticks([])
            panel.set_ylabel(name)
    panel.set_xlabel("x in mm; outlines: orange is the first label, blue the second")
    with atomic_path(output) as temporary:
        FigureCanvasAgg(figure).print_png(temporary)


if __name__ == "__main__":
    main()
