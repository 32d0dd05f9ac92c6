"""Draws the animation of docs/concepts/halos.md: how 2 x 2 processors exchange halos before a convolution.

    python -m benchmarks.halo_animation docs/pictures/halos.gif

The results come from a `Program` under the layout that is drawn, and are compared with those of one processor.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

import mtf_imaging as mi
from mtf_imaging.engine.layout.windows import Window, plan_split

SIZE, PARTS, CELL, GAP = 12, 2, 20, 60  # voxels, slices per dimension, pixels per voxel and between slices
HALF = SIZE // PARTS
GRAY, YELLOW, BLUE = (1.0, 1.0, 1.0), (1.0, 0.85, 0.3), (0.45, 0.7, 1.0)  # own voxels, halos, results
HALO = plan_split(Window(kernel=3), size=SIZE, parts=PARTS).before


class Scene(NamedTuple):
    """A frame.

    Attributes:
      text: what happens.
      apart: pixels between the slices.
      rows, cols: the share of the way that the halos along each dimension have gone; None before they are sent.
      computed: the share of the results that are computed.
    """

    text: str
    apart: int = GAP
    rows: float | None = None
    cols: float | None = None
    computed: float = 0.0


SCENES = (
    Scene("an image of 12 x 12 voxels", 0),
    Scene("x is split over 2 rows, y over 2 columns of processors"),
    Scene("processors send rows of voxels along x ...", rows=0.15),
    Scene("... to the neighbors, which need them", rows=0.45),
    Scene("each slice now has a halo along x", rows=1),
    Scene("then columns along y, with the ends of the rows ...", rows=1, cols=0.15),
    Scene("... so corners need no message of their own", rows=1, cols=0.45),
    Scene("each slice has its whole halo", rows=1, cols=1),
    Scene("each processor computes its 3 x 3 convolution", rows=1, cols=1, computed=0.3),
    Scene("without waiting for the others", rows=1, cols=1, computed=0.7),
    Scene("the slices of the result", computed=1),
    Scene("the result is that of one processor", 0, computed=1),
)


def convolved(image: np.ndarray, mesh_shape: str = "", layout: str = "") -> np.ndarray:
    """Returns the mean of 3 x 3 voxels, computed under a layout."""
    shapes = {"x": f"batch:1,x:{SIZE},y:{SIZE},channels:1", "filter": "fx:3,fy:3,channels:1,filters:1"}
    program = mi.Program(mi.ops.conv2d, shapes, mesh_shape, layout, mesh_impl="stacked")
    return program(image[None, ..., None], np.full((3, 3, 1, 1), 1 / 9, np.float32)).numpy()[0, ..., 0]


def regions(scene: Scene, row: int, col: int) -> Iterator[tuple[slice, slice, float, float, tuple[float, ...]]]:
    """Yields the voxels that a processor has, as (rows, columns, shift down, shift right in pixels, color).

    A halo that is on its way lies between its slice and the neighbor that sends it.
    """
    own = slice(row * HALF, (row + 1) * HALF), slice(col * HALF, (col + 1) * HALF)
    beside = [slice(HALF - HALO, HALF) if part else slice(HALF, HALF + HALO) for part in (row, col)]
    back = [-1 if part else 1 for part in (row, col)]
    yield *own, 0, 0, GRAY
    if scene.rows is not None:
        yield beside[0], own[1], back[0] * scene.apart * (1 - scene.rows), 0, YELLOW
    if scene.cols is not None:
        with_halo = slice(min(own[0].start, beside[0].start), max(own[0].stop, beside[0].stop))
        yield with_halo, beside[1], 0, back[1] * scene.apart * (1 - scene.cols), YELLOW


def draw(scene: Scene, image: np.ndarray, result: np.ndarray) -> Image.Image:
    """Returns a frame."""
    side = SIZE * CELL + GAP + 2 * CELL
    frame = Image.new("RGB", (side, side + 2 * CELL), "white")
    pen = ImageDraw.Draw(frame)
    first = (side - SIZE * CELL - scene.apart) / 2

    def voxel(x, y, down, right, value, color):
        top, left = first + x * CELL + down, first + y * CELL + right
        shade = tuple(int(255 * share * (0.25 + 0.75 * value)) for share in color)
        pen.rectangle((left, top, left + CELL - 1, top + CELL - 1), shade, "gray")

    for row, col in np.ndindex(PARTS, PARTS):
        apart = row * scene.apart, col * scene.apart
        for rows, cols, down, right, color in regions(scene, row, col):
            for x in range(rows.start, rows.stop):
                for y in range(cols.start, cols.stop):
                    voxel(x, y, apart[0] + down, apart[1] + right, image[x, y], color)
        for number in range(round(scene.computed * HALF**2)):
            x, y = row * HALF + number // HALF, col * HALF + number % HALF
            voxel(x, y, *apart, result[x, y], BLUE)
    pen.text((side / 2, side + CELL / 2), scene.text, "black", ImageFont.load_default(13), anchor="mm")
    return frame


def frames() -> list[Image.Image]:
    """Returns all frames."""
    image = np.random.default_rng(0).random((SIZE, SIZE), np.float32)
    result = convolved(image, f"rows:{PARTS},cols:{PARTS}", "x:rows,y:cols")
    np.testing.assert_allclose(result, convolved(image), rtol=1e-5)
    return [draw(scene, image, result) for scene in SCENES]


def main() -> None:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("output", type=Path, help="the GIF file to write")
    output = flags.parse_args().output
    first, *others = frames()
    first.save(output, save_all=True, append_images=others, duration=1500, loop=0)


if __name__ == "__main__":
    main()
