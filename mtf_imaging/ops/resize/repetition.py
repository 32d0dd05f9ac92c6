"""Repetition of each voxel along spatial dimensions, any of which may be split."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from mtf_imaging.compat import mtf
from mtf_imaging.errors import ShapeError
from mtf_imaging.ops.resize.operations import resample
from mtf_imaging.ops.resize.taps import Resampling, Taps
from mtf_imaging.ops.window_op import Ints, per_dimension


@dataclasses.dataclass(frozen=True)
class Repetition(Resampling):
    """Repetition of each voxel, like `np.repeat(x, factor)[:outputs]`.

    Attributes:
      size: number of voxels in the input.
      outputs: number of voxels in the result.
      factor: number of repetitions of each voxel.
    """

    factor: int

    def taps(self) -> Taps:
        positions = (np.arange(self.outputs) // self.factor).astype(np.int32)[np.newaxis]
        return Taps(positions, np.ones(positions.shape))


def repeat2d(x: mtf.Tensor, factor: Ints, sizes: Sequence[int] | None = None, name: str | None = None) -> mtf.Tensor:
    """Repeats each voxel along 2 spatial dimensions, like `tf.repeat`: `y[i, j] = x[i // factor, j // factor]`.

    This is the nearest-neighbor upsampling of feature pyramids. A map of n voxels that was reduced from 2 n - 1 voxels
    by a stride of 2 has the size 2 n - 1 again if `sizes` says so. `resize2d` with the method "nearest" differs at such
    sizes: it scales the map to its new size.

    Every dimension may be split. A slice needs only the voxels that it repeats.

    Args:
      x: Tensor[batch..., x, y, channels], of any dtype.
      factor: number of repetitions: an int, or one for each spatial dimension.
      sizes: voxels of x' and y'. The last voxel of a dimension may be repeated fewer times than the others, but at
        least once. The default is `factor` times for all.
      name: name of the operation.

    Returns:
      Tensor[batch..., x', y', channels] of the same dtype. Dimensions keep their names.

    Raises:
      ShapeError: the shape of the input does not fit the factor or the sizes.
    """
    title = f"repeat2d '{name or 'repeat2d'}'"
    dims = x.shape.dims
    if len(dims) < 4:
        raise ShapeError(
            f"{title} needs at least 4 dimensions (batch, 2 spatial dimensions, channels), but its input has "
            f"{len(dims)}: {x.shape}"
        )
    spatial, factors = dims[-3:-1], per_dimension(title, "factor", factor, 2)
    if min(factors) < 1:
        raise ShapeError(f"{title}: factor must be at least 1, not {factor}")
    largest = [dim.size * times for dim, times in zip(spatial, factors)]
    outputs = largest if sizes is None else per_dimension(title, "sizes", sizes, 2)
    for dim, times, size, limit in zip(spatial, factors, outputs, largest):
        least = limit - times + 1
        if not least <= size <= limit:
            raise ShapeError(
                f"{title}: sizes must be from {least} to {limit} along '{dim.name}' (size {dim.size}), not {size}. "
                "Fix: use another factor or another size."
            )
    lines = [Repetition(dim.size, size, times) for dim, size, times in zip(spatial, outputs, factors)]
    return resample("repeat2d", x, lines, name)
