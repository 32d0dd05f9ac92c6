"""Draws the pictures in docs/concepts/layouts.md and docs/concepts/halos.md.

python -m benchmarks.layout_pictures docs/pictures
"""

import sys
from pathlib import Path

from mtf_imaging.engine.layout import Layout
from mtf_imaging.engine.layout.windows import Window, plan_split
from mtf_imaging.planner.render.picture import write_picture
from mtf_imaging.planner.render.picture_boxes import LayoutPicture

LAYOUTS = {
    "2x2": ("rows:2,cols:2", "x:rows,y:cols"),
    "2x2x2": ("rows:2,cols:2,planes:2", "x:rows,y:cols,z:planes"),
    "16x16x2": ("rows:16,cols:16,cores:2", "x:rows,y:cols,batch:cores"),
}
VOLUME = (("x", 512), ("y", 512), ("z", 512))


def main(folder: str) -> None:
    """Writes `layouts_NAME.png` for each layout, with the halo of a convolution with kernel size 3."""
    for name, strings in LAYOUTS.items():
        layout = Layout.parse(*strings)
        slices = layout.slices_per_dimension
        plans = {dim: plan_split(Window(kernel=3), size, slices[dim]) for dim, size in VOLUME if dim in slices}
        halo = {dim: (plan.before, plan.after) for dim, plan in plans.items()}
        write_picture(Path(folder) / f"layouts_{name}.png", LayoutPicture(VOLUME, layout, halo))


if __name__ == "__main__":
    main(*sys.argv[1:])
