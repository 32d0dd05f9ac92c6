"""The channel dimension of activations."""

from collections.abc import Sequence

from mtf_imaging.engine.compat import mtf
from mtf_imaging.errors import ConfigError, ShapeError

CHANNELS = "channels"
JOINED = "joined"  # a name that no layout rule mentions, for operations that need all channels of a voxel at once


def concat(tensors: Sequence[mtf.Tensor]) -> mtf.Tensor:
    """Concatenates tensors along their channels, like `keras.layers.Concatenate`.

    Every dimension may be split. Processors exchange the channels only if these are split.

    Args:
      tensors: Tensors[batch, spatial..., channels] with equal dimensions before the channels.

    Returns:
      Tensor[batch, spatial..., channels]

    Raises:
      ConfigError: `tensors` is not a list of tensors.
      ShapeError: there is no tensor, or the other dimensions differ.
    """
    is_sequence = isinstance(tensors, tuple | list)
    for x in tensors if is_sequence else [tensors]:
        if not is_sequence or not isinstance(x, mtf.Tensor):
            raise ConfigError(
                f"mi.layers.concat needs a list of tensors, not {type(x).__name__}{' in a list' * is_sequence}. Fix: "
                "call mi.layers.concat([x, y])."
            )
    if not tensors:
        raise ShapeError("mi.layers.concat needs at least one tensor.")
    for x in tensors[1:]:
        if x.shape.dims[:-1] != tensors[0].shape.dims[:-1]:
            raise ShapeError(
                f"mi.layers.concat: the dimensions before the channels differ: {tensors[0].shape} and {x.shape}. "
                "Fix: resize or crop one of the tensors."
            )
    joined = mtf.concat([rename_channels(x, JOINED) for x in tensors], JOINED)
    return rename_channels(joined, CHANNELS)


def rename_channels(x: mtf.Tensor, name: str) -> mtf.Tensor:
    """Renames the last dimension of a tensor."""
    old = x.shape.dims[-1].name
    return x if old == name else mtf.rename_dimension(x, old, name)


def free_name(x: mtf.Tensor, name: str, other: str) -> str:
    """Returns the name of a weight's output dimension: `name`, or `other` if the channels of `x` have that name."""
    return other if name == x.shape.dims[-1].name else name
