"""The texts in a layout picture."""

import math

from mtf_imaging.engine.layout import uneven_splits
from mtf_imaging.planner.render.picture_boxes import Box, Cuts, widened


def describe_processors(cuts: Cuts) -> str:
    """Describes the mesh and the mesh dimensions that do not split the volume.

    >>> from mtf_imaging.engine.layout import Layout
    >>> describe_processors(Cuts((("x", 8),), Layout.parse("rows:2,cores:2", "x:rows,batch:cores")))
    "4 processors, rows 2 x cores 2. 'batch' is split over cores: 2 sets of these slices, each with its own images."
    >>> describe_processors(Cuts((("x", 33),), Layout.parse("rows:16", "x:rows")))
    '16 processors, rows 16. x: 33 over rows:16 -> slices of 3, 5 of 16 empty.'
    """
    sizes, rules = dict(cuts.layout.mesh_shape), dict(cuts.layout.rules)
    number = math.prod(sizes.values())
    mesh = " x ".join(f"{name} {size}" for name, size in sizes.items())
    sentences = ["1 processor." if number == 1 else f"{number:,} processors, {mesh}."]
    for dim, onto in rules.items():
        if dim in cuts.parts or sizes[onto] == 1:
            continue
        if dim == "batch":
            sentences.append(
                f"'batch' is split over {onto}: {sizes[onto]} sets of these slices, each with its own images."
            )
        else:
            sentences.append(f"'{dim}' is split over {onto}: {sizes[onto]} processors share each of these slices.")
    for name, size in sizes.items():
        if size > 1 and name not in rules.values():
            sentences.append(f"No rule uses {name}: {size} processors repeat the same work.")
    sentences += [f"{split}." for split in uneven_splits(cuts.layout, [cuts.volume])]
    return " ".join(sentences)


def describe_size(box: Box) -> str:
    """Describes the number of voxels along each dimension.

    >>> describe_size({"x": (4, 8), "y": (0, 6)})
    'x 4, y 6 voxels'
    """
    return ", ".join(f"{dim} {high - low:g}" for dim, (low, high) in box.items()) + " voxels"


def describe_halo(box: Box, halo: dict[str, tuple[int, int]], volume: tuple) -> list[str]:
    """Describes the halo of a slice, one line per dimension with a halo.

    >>> describe_halo({"x": (0, 4), "y": (0, 6)}, {"x": (1, 1)}, (("x", 8), ("y", 6)))
    ['x: 0 before, 1 after']
    """
    around = widened(box, halo, volume)
    sides = {dim: (box[dim][0] - low, high - box[dim][1]) for dim, (low, high) in around.items()}
    return [f"{dim}: {before:g} before, {after:g} after" for dim, (before, after) in sides.items() if before or after]


def tick_places(parts: int, pixels: float) -> list[int]:
    """Returns the slices that get a number: all if there is room, otherwise some, including the first and the last.

    >>> tick_places(4, 400), tick_places(128, 400)
    ([0, 1, 2, 3], [0, 32, 64, 96, 127])
    """
    if pixels / parts >= 16:
        return list(range(parts))
    step = 2 ** math.ceil(math.log2(parts * 34 / pixels))
    step = max(step, 2 ** math.floor(math.log2(max(parts // 4, 1))))
    return [*range(0, parts - step // 2, step), parts - 1]
