"""The spatial dimensions of a layer's input, between the batch and the channels."""

from collections.abc import Callable, Sequence

from mtf_imaging.engine import ops
from mtf_imaging.engine.compat import mtf
from mtf_imaging.errors import ShapeError

Sizes = int | Sequence[int]  # one int for all spatial dimensions, or one for each
Padding = str | Sequence[tuple[int, int]]  # "same", "valid", or voxels (before, after) of each spatial dimension

_AXES = {1: ("x",), 2: ("x", "y"), 3: ("x", "y", "z")}


def spatial_dims(title: str, x: mtf.Tensor, *sizes: object) -> list[mtf.Dimension]:
    """Returns the spatial dimensions of a tensor.

    By default, they are the dimensions between the first and the last one. If an argument of the layer has one size for
    each spatial dimension, such as a kernel size of (3, 3), they are that many dimensions before the channels, and all
    earlier dimensions belong to the batch.

    Args:
      title: the layer, for error messages.
      x: Tensor[batch..., spatial..., channels]
      *sizes: arguments of the layer.

    Raises:
      ShapeError: there are no spatial dimensions, or more than 3.
    """
    lengths = {len(size) for size in sizes if isinstance(size, tuple | list)}
    number = max(lengths) if lengths else len(x.shape.dims) - 2
    if not 1 <= number <= min(3, len(x.shape.dims) - 2) or len(lengths) > 1:
        fix = "use an int for all spatial dimensions, or one size for each of them"
        if len(x.shape.dims) < 3:
            fix = "pass Tensor[batch, spatial..., channels], or use mi.layers.Dense for a tensor without an image"
        raise ShapeError(
            f"{title}: the input {x.shape} has {max(0, len(x.shape.dims) - 2)} dimensions between the batch and the "
            f"channels, but the layer has sizes for {sorted(lengths) or '1 to 3'}. Fix: {fix}."
        )
    return list(x.shape.dims[-1 - number : -1])


def operation(name: str, dims: Sequence[mtf.Dimension]) -> Callable[..., mtf.Tensor]:
    """Returns an operation of `mi.ops` for a number of spatial dimensions, such as "conv{}d"."""
    function: Callable[..., mtf.Tensor] = getattr(ops, name.format(len(dims)))
    return function


def kernel_dims(dims: Sequence[mtf.Dimension], size: Sizes) -> list[mtf.Dimension]:
    """Returns the spatial dimensions of a kernel for an input with the spatial dimensions `dims`.

    Their names do not depend on the input, so that inputs with other names can share the kernel.
    """
    sizes = per_dim(dims, size)
    return [mtf.Dimension(f"kernel_{axis}", size) for axis, size in zip(_AXES[len(dims)], sizes, strict=True)]


def per_dim(dims: Sequence[mtf.Dimension], size: Sizes) -> list[int]:
    """Returns one size for each dimension, given the sizes or one size for all dimensions."""
    return [size] * len(dims) if isinstance(size, int) else list(size)
