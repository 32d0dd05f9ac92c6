"""Suggests replacements for layouts of mesh_tensorflow's own U-Net, which use block dimensions.

Convolutions with blocks (`conv3d_with_blocks`) require the caller to reshape each spatial dimension into two. For x,
`image_nx_block` is the number of blocks and `image_sx_block` the size of one block. The layouts of that U-Net split the
first of the two. In this package, x stays one dimension.
"""

import re
from collections.abc import Iterable

_BLOCKS = re.compile(r"image_([ns])([xyz])_block")


def blocked_dimension(name: str) -> str | None:
    """Returns the spatial dimension of a block dimension, or None for any other dimension.

    >>> blocked_dimension("image_nx_block"), blocked_dimension("x")
    ('x', None)
    """
    match = _BLOCKS.fullmatch(name)
    return match and match[2]


def without_blocks(rules: Iterable[tuple[str, str]], program_dims: Iterable[str]) -> list[tuple[str, str]]:
    """Replaces block dimensions in rules with spatial dimensions.

    If two rules name the same spatial dimension, the rule for the number of blocks wins.

    >>> without_blocks([("batch", "cores"), ("image_nx_block", "rows")], ["batch", "x"])
    [('batch', 'cores'), ('x', 'rows')]

    Args:
      rules: pairs (tensor dimension, mesh dimension).
      program_dims: dimension names of the program, which are not replaced.
    """
    rules, program_dims = list(rules), set(program_dims)
    # The number of blocks ("n") is inserted second and overwrites the first value.
    onto = {
        axis: mesh
        for kind in "sn"
        for name, mesh in rules
        if (axis := _axis(name, program_dims)) and f"_{kind}" in name
    }
    names = dict.fromkeys(_axis(name, program_dims) or name for name, _ in rules)
    onto = dict(rules) | onto
    return [(name, onto[name]) for name in names]


def explain_blocks(name: str, corrected: Iterable[tuple[str, str]], program_dims: Iterable[str]) -> str:
    """Returns the error message for a block dimension that the program does not have.

    Args:
      name: the dimension.
      corrected: the rules of the corrected layout.
      program_dims: dimension names of the program.
    """
    axis, program_dims = blocked_dimension(name), list(program_dims)
    what = (
        f"no tensor dimension is called '{name}'. mesh_tensorflow's convolutions with blocks need {axis} cut into such "
        "dimensions, but mtf_imaging splits the spatial dimension itself"
    )
    if axis not in program_dims:
        return f"{what}. Known tensor dimensions: {', '.join(program_dims)}."
    return f"{what}. Fix: write the layout as '{','.join(map(':'.join, corrected))}'."


def _axis(name: str, program_dims: set[str]) -> str | None:
    return None if name in program_dims else blocked_dimension(name)
