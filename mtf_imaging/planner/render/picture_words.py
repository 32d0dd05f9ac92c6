"""What a picture of a layout says in words."""

import math

from mtf_imaging.planner.render.picture_boxes import Box, Cuts, widened


def processors_in_words(cuts: Cuts) -> str:
    """How many processors there are, and what those do that cut no slice.

    >>> from mtf_imaging.layout import Layout
    >>> processors_in_words(Cuts((("x", 8),), Layout.parse("rows:2,cores:2", "x:rows,batch:cores")))
    "4 processors, rows 2 x cores 2. 'batch' over cores: 2 such sets of slices, each of its part of the batch."
    """
    sizes, rules = dict(cuts.layout.mesh_shape), dict(cuts.layout.rules)
    number = math.prod(sizes.values())
    mesh = " x ".join(f"{name} {size}" for name, size in sizes.items())
    said = ["1 processor." if number == 1 else f"{number:,} processors, {mesh}."]
    for dim, onto in rules.items():
        if dim in cuts.parts or sizes[onto] == 1:
            continue
        if dim == "batch":
            said.append(f"'batch' over {onto}: {sizes[onto]} such sets of slices, each of its part of the batch.")
        else:
            said.append(
                f"'{dim}' over {onto}: {sizes[onto]} processors share each slice, each with its part of '{dim}'."
            )
    for name, size in sizes.items():
        if size > 1 and name not in rules.values():
            said.append(f"no rule uses {name}: the same work is done {size} times.")
    return " ".join(said)


def size_in_words(box: Box) -> str:
    """Voxels along each dimension.

    >>> size_in_words({"x": (4, 8), "y": (0, 6)})
    'x 4, y 6 voxels'
    """
    return ", ".join(f"{dim} {high - low:g}" for dim, (low, high) in box.items()) + " voxels"


def halo_in_words(box: Box, halo: dict[str, tuple[int, int]], volume: tuple) -> list[str]:
    """Voxels that a slice gets from its neighbours, a line for each dimension that has some.

    >>> halo_in_words({"x": (0, 4), "y": (0, 6)}, {"x": (1, 1)}, (("x", 8), ("y", 6)))
    ['x: 0 before, 1 after']
    """
    around = widened(box, halo, volume)
    sides = {dim: (box[dim][0] - low, high - box[dim][1]) for dim, (low, high) in around.items()}
    return [f"{dim}: {before:g} before, {after:g} after" for dim, (before, after) in sides.items() if before or after]


def tick_places(parts: int, pixels: float) -> list[int]:
    """Slices whose number is written beside them: all where there is room, else some, with the first and the last.

    >>> tick_places(4, 400), tick_places(128, 400)
    ([0, 1, 2, 3], [0, 32, 64, 96, 127])
    """
    if pixels / parts >= 16:
        return list(range(parts))
    step = 2 ** math.ceil(math.log2(parts * 34 / pixels))
    step = max(step, 2 ** math.floor(math.log2(max(parts // 4, 1))))
    return [*range(0, parts - step // 2, step), parts - 1]
