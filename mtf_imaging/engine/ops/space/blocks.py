"""Space to depth and depth to space (pixel shuffle): the public functions."""

import math
from typing import Any

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.ops.inputs import check_tensor
from mtf_imaging.engine.ops.space.operations import DepthToSpace, SpaceToDepth
from mtf_imaging.engine.ops.window_op import Ints, make_geometry
from mtf_imaging.errors import ShapeError


def space_to_depth(x: mtf.Tensor, block_size: Ints, name: str | None = None) -> mtf.Tensor:
    """Moves blocks of voxels to channels, like `tf.nn.space_to_depth`, in 1 to 3 spatial dimensions.

    `y[..., i, j, k, ((a s + b) t + c) channels + d] = x[..., r i + a, s j + b, t k + c, d]` for blocks of r, s and t
    voxels. In 2D, this is the order of TensorFlow's "NHWC" format.

    Every dimension may be split. Processors exchange halos where slices cut blocks. If the channels are split, they are
    gathered.

    Args:
      x: Tensor[batch..., x, y, z, channels]
      block_size: size of a block: an int for all dimensions between the first and the last one, or one for each
        spatial dimension. The sizes of `x` must be multiples of it.
      name: name of the operation.

    Returns:
      Tensor[batch..., x / r, y / s, z / t, channels r s t]. All dimensions keep their names.

    Raises:
      ShapeError: `x` has the wrong number of dimensions, or the block size does not divide its sizes.
    """
    title = f"space_to_depth '{name or 'space_to_depth'}'"
    blocks = _blocks(title, x, block_size)
    dims = x.shape.dims[-1 - len(blocks) : -1]
    for dim, block in zip(dims, blocks, strict=True):
        if dim.size % block:
            raise ShapeError(
                f"{title}: blocks of {block} voxels do not divide '{dim.name}' (size {dim.size}). Fix: pad "
                f"'{dim.name}' to {math.ceil(dim.size / block) * block} with mi.ops.pad."
            )
    geometry = make_geometry(title, x, len(blocks), blocks, blocks, 1, "VALID")
    return SpaceToDepth(x, geometry, name).outputs[0]


def depth_to_space(x: mtf.Tensor, block_size: Ints, name: str | None = None) -> mtf.Tensor:
    """Moves channels to blocks of voxels, like `tf.nn.depth_to_space` (pixel shuffle), in 1 to 3 spatial dimensions.

    It is the inverse of `space_to_depth`. The channels are in the order of TensorFlow's "NHWC" format; PyTorch's
    `PixelShuffle` puts the channels of the result before the position in the block.

    Every dimension may be split. Processors exchange halos where slices of the result cut blocks. If the channels are
    split, they are gathered.

    Args:
      x: Tensor[batch..., x, y, z, channels]
      block_size: size of a block: an int for all dimensions between the first and the last one, or one for each
        spatial dimension. Its product must divide the number of channels.
      name: name of the operation.

    Returns:
      Tensor[batch..., r x, s y, t z, channels / (r s t)] for blocks of r, s and t voxels. All dimensions keep their
      names.

    Raises:
      ShapeError: `x` has the wrong number of dimensions, or the block size does not divide its channels.
    """
    title = f"depth_to_space '{name or 'depth_to_space'}'"
    blocks = _blocks(title, x, block_size)
    channels, number = x.shape.dims[-1], math.prod(blocks)
    if channels.size % number:
        raise ShapeError(
            f"{title}: a block has {number} voxels, which do not divide '{channels.name}' (size {channels.size}). "
            f"Fix: use a multiple of {number} channels."
        )
    sizes = [dim.size * block for dim, block in zip(x.shape.dims[-1 - len(blocks) : -1], blocks, strict=True)]
    geometry = make_geometry(title, x, len(blocks), blocks, blocks, 1, "VALID", sizes)
    return DepthToSpace(x, geometry, name).outputs[0]


def _blocks(title: str, x: mtf.Tensor, block_size: Any) -> list[int]:
    """Returns the size of a block along each spatial dimension."""
    check_tensor(title, x)
    blocks = list(block_size) if isinstance(block_size, tuple | list) else [block_size] * (len(x.shape.dims) - 2)
    if not 1 <= len(blocks) <= min(3, len(x.shape.dims) - 2) or not all(
        isinstance(block, int) and block >= 1 for block in blocks
    ):
        raise ShapeError(
            f"{title}: block_size = {block_size!r} must be an int of at least 1, or one for each of 1 to 3 spatial "
            f"dimensions, and the input has {x.shape}. Fix: use an input with a batch, 1 to 3 spatial dimensions and "
            "channels, or one block size for each spatial dimension."
        )
    return blocks
