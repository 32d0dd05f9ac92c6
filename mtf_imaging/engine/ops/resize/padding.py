"""Padding of spatial dimensions, any of which may be split."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.ops.resize.operations import resample
from mtf_imaging.engine.ops.resize.taps import Resampling, Taps
from mtf_imaging.errors import ShapeError

MODES = ("constant", "reflect", "symmetric")


@dataclasses.dataclass(frozen=True)
class Padding(Resampling):
    """Padding of `size` voxels, like `tf.pad`.

    Attributes:
      size: number of voxels in the input.
      outputs: number of voxels in the result.
      before: number of voxels added before the first voxel.
      mode: "constant", "reflect" or "symmetric".
    """

    before: int
    mode: str

    def taps(self) -> Taps:
        rows = np.arange(self.outputs) - self.before
        inside = np.clip(rows, 0, self.size - 1)
        if self.mode == "constant":  # Zeros have the position of the nearest voxel, which adds nothing to the halo.
            return Taps(inside[np.newaxis].astype(np.int32), (rows == inside)[np.newaxis].astype(np.float64))
        # "reflect" excludes the border voxel itself, "symmetric" includes it.
        border = 0 if self.mode == "reflect" else 1
        beyond = rows - inside
        positions = (inside - beyond + border * np.sign(beyond))[np.newaxis]
        return Taps(positions.astype(np.int32), np.ones(positions.shape))


def _check_pairs(title: str, paddings: object) -> list[tuple[int, int]]:
    """Returns the paddings as pairs of ints."""
    pairs = list(paddings) if isinstance(paddings, (list, tuple)) else []
    if not 1 <= len(pairs) <= 3 or not all(
        isinstance(pair, (list, tuple))
        and len(pair) == 2
        and all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in pair)
        for pair in pairs
    ):
        raise ShapeError(
            f"{title}: paddings must be a pair (before, after) of ints from 0 for each of 1, 2 or 3 spatial "
            f"dimensions, not {paddings!r}. Fix: use paddings such as [(1, 1), (0, 2)]."
        )
    return [(before, after) for before, after in pairs]


def pad(
    x: mtf.Tensor, paddings: Sequence[tuple[int, int]], mode: str = "constant", name: str | None = None
) -> mtf.Tensor:
    """Pads the spatial dimensions, like `tf.pad` on the whole tensor.

    | mode | the voxels a, b, c, d padded by (2, 2) |
    | --- | --- |
    | "constant" | 0, 0, a, b, c, d, 0, 0 |
    | "reflect" | c, b, a, b, c, d, c, b |
    | "symmetric" | b, a, a, b, c, d, d, c |

    Every dimension may be split. The slices move with the padding, so each slice receives the voxels that it lacks from
    its neighbors.

    Args:
      x: Tensor[batch..., spatial..., channels], of any dtype.
      paddings: a pair (before, after) for each spatial dimension, as numbers of voxels: 1, 2 or 3 pairs.
      mode: "constant", "reflect" or "symmetric". A dimension of n voxels can be padded by at most n - 1 voxels with
        "reflect" and by at most n voxels with "symmetric" on each side.
      name: name of the operation.

    Returns:
      Tensor[batch..., spatial'..., channels] of the same dtype. Dimensions keep their names.

    Raises:
      ShapeError: the shape of the input does not fit the paddings or the mode.
    """
    title = f"pad '{name or 'pad'}'"
    pairs = _check_pairs(title, paddings)
    dims = x.shape.dims
    if len(dims) < len(pairs) + 2:
        raise ShapeError(
            f"{title} needs at least {len(pairs) + 2} dimensions (batch, {len(pairs)} spatial dimensions, channels), "
            f"but its input has {len(dims)}: {x.shape}"
        )
    if mode not in MODES:
        raise ShapeError(f"{title}: mode must be 'constant', 'reflect' or 'symmetric', not {mode!r}")
    spatial = dims[-1 - len(pairs) : -1]
    for dim, pair in zip(spatial, pairs):
        limit = {"reflect": dim.size - 1, "symmetric": dim.size}.get(mode, max(pair))
        if max(pair) > limit:
            raise ShapeError(
                f"{title}: mode '{mode}' can pad '{dim.name}' (size {dim.size}) by at most {limit} voxels on each "
                f"side, but its padding is {pair}. Fix: use a smaller padding, or mode 'constant'."
            )
    lines = [Padding(dim.size, dim.size + sum(pair), pair[0], mode) for dim, pair in zip(spatial, pairs)]
    return resample("pad", x, lines, name)
