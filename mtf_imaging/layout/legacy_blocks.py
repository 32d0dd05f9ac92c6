"""The layouts of mesh_tensorflow's own U-Net: dimensions that count blocks, and what they are here.

Its convolutions with blocks (`conv3d_with_blocks`) cut an axis into two dimensions by hand, for x `image_nx_block`, the
number of blocks, and `image_sx_block`, the voxels of one. Layouts split the first. Here x stays one dimension.
"""

import re
from collections.abc import Iterable

_BLOCKS = re.compile(r"image_([ns])([xyz])_block")


def axis_of_blocks(name: str) -> str | None:
    """The axis that a dimension of blocks, or of voxels in one, is cut from; None for any other dimension.

    >>> axis_of_blocks("image_nx_block"), axis_of_blocks("x")
    ('x', None)
    """
    match = _BLOCKS.fullmatch(name)
    return match and match[2]


def without_blocks(rules: Iterable[tuple[str, str]], known: Iterable[str]) -> list[tuple[str, str]]:
    """The rules with axes in the place of blocks; of two for one axis, that of the number of blocks stays.

    >>> without_blocks([("batch", "cores"), ("image_nx_block", "rows")], ["batch", "x"])
    [('batch', 'cores'), ('x', 'rows')]

    Args:
      rules: pairs of tensor dimension and mesh dimension.
      known: names of the dimensions that there are, which are left alone.
    """
    rules, known = list(rules), set(known)
    # The number of blocks comes second into the dict, and so wins.
    onto = {axis: mesh for kind in "sn" for name, mesh in rules if (axis := _axis(name, known)) and f"_{kind}" in name}
    names = dict.fromkeys(_axis(name, known) or name for name, _ in rules)
    onto = dict(rules) | onto
    return [(name, onto[name]) for name in names]


def explain_blocks(name: str, corrected: Iterable[tuple[str, str]], known: Iterable[str]) -> str:
    """What is said of a dimension of blocks that a program does not have.

    Args:
      name: the dimension.
      corrected: the whole layout, as it is written here.
      known: names of the dimensions that there are.
    """
    axis, known = axis_of_blocks(name), list(known)
    what = (
        f"no tensor dimension is called '{name}': so mesh_tensorflow's convolutions with blocks call what they cut "
        f"{axis} into; here a dimension itself is split"
    )
    if axis not in known:
        return f"{what}, whatever its name. Known tensor dimensions: {', '.join(known)}."
    return f"{what}. Write the layout as '{','.join(map(':'.join, corrected))}'."


def _axis(name: str, known: set[str]) -> str | None:
    return None if name in known else axis_of_blocks(name)
