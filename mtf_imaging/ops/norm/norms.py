"""Batch, instance and group norm, with statistics of the whole tensor, however it is split."""

import tensorflow as tf

from mtf_imaging.compat import mtf
from mtf_imaging.errors import ShapeError
from mtf_imaging.ops.inference import is_inference
from mtf_imaging.ops.norm.normalization import Normalize, Sharing
from mtf_imaging.ops.precision import master_dtype


def _variable(x: mtf.Tensor, key: str, initial: float, trainable: bool = True) -> mtf.Tensor:
    """A variable of `x`'s channels."""
    channels, initializer = mtf.Shape(x.shape.dims[-1:]), tf.constant_initializer(initial)
    dtype = master_dtype(x.dtype)
    return mtf.get_variable(x.mesh, key, channels, dtype=dtype, initializer=initializer, trainable=trainable)


def batch_norm(
    x: mtf.Tensor, is_training: bool, momentum: float = 0.9, epsilon: float = 1e-6, name: str | None = None
) -> mtf.Tensor:
    """Batch normalization: statistics of each channel over the whole batch and volume.

    Variables: `scale` (from 1), `offset` (from 0), and, not trained, `moving_mean` (from 0) and `moving_variance` (from
    1), which each training call moves by `1 - momentum` towards the batch's mean and (biased) variance. They are
    float32 where `x` has fewer bits.

    Every dimension may be split. Two sums per channel are exchanged forward, and two backward. The two forward sums
    share one message. In float64 they are two messages: the mean, then the squared deviations from it.

    Args:
      x: Tensor[batch..., x, y, z, channels]
      is_training: a bool. If True, normalizes by the batch's statistics and updates the moving statistics. If False,
        and within `inference`, normalizes by the moving statistics.
      momentum: how much of the moving statistics a call keeps.
      epsilon: added to the variance.
      name: variable scope.

    Returns:
      Tensor[batch..., x, y, z, channels]
    """
    with tf.compat.v1.variable_scope(name, default_name="batch_norm"):
        scale, offset = _variable(x, "scale", 1.0), _variable(x, "offset", 0.0)
        moving_mean, moving_variance = (
            _variable(x, "moving_mean", 0.0, False),
            _variable(x, "moving_variance", 1.0, False),
        )
        if is_training and not is_inference():
            y, mean, variance = Normalize("batch_norm", x, scale, offset, Sharing(), epsilon).outputs
            for moving, value in ((moving_mean, mean), (moving_variance, variance)):
                mtf.assign(moving, moving * momentum + mtf.stop_gradient(value) * (1 - momentum))
            return y
        factor = scale * mtf.rsqrt(moving_variance + epsilon)
        return mtf.cast(mtf.cast(x, scale.dtype) * factor + (offset - moving_mean * factor), x.dtype)


def instance_norm(x: mtf.Tensor, epsilon: float = 1e-6, name: str | None = None) -> mtf.Tensor:
    """Instance normalization (Ulyanov et al. 2016, arXiv:1607.08022): of each channel of each case by itself.

    Statistics are those of the whole volume, in training as in evaluation; nothing is moved, and no case sees another.
    Variables and splits are as in `group_norm`.

    Args:
      x: Tensor[batch, x, y, z, channels]: the first dimension is the batch, all up to the last are the volume.
      epsilon: added to the variance.
      name: variable scope.

    Returns:
      Tensor[batch, x, y, z, channels]

    Raises:
      ShapeError: `x` has no volume.
    """
    return _norm_of_cases("instance_norm", x, 1, epsilon, name)


def group_norm(x: mtf.Tensor, groups: int, epsilon: float = 1e-6, name: str | None = None) -> mtf.Tensor:
    """Group normalization (Wu and He 2018, arXiv:1803.08494): of each group of channels of each case by itself.

    `y = (x - mean) / sqrt(variance + epsilon) scale + offset`, with the mean and (biased) variance of the case's whole
    volume in `channels / groups` channels, one after the other, in training as in evaluation.

    Variables: `scale` (from 1) and `offset` (from 0) of each channel, float32 where `x` has fewer bits. Every dimension
    may be split. Two sums per channel and case are exchanged forward, and two backward, in as many messages as for
    `batch_norm`. If the layout splits the channels within a group, the means of all channels are exchanged, too.

    Args:
      x: Tensor[batch, x, y, z, channels]: the first dimension is the batch, all up to the last are the volume.
      groups: a number that divides the channels; 1 normalizes all of them together.
      epsilon: added to the variance.
      name: variable scope.

    Returns:
      Tensor[batch, x, y, z, channels]

    Raises:
      ShapeError: `groups` does not divide the channels, or `x` has no volume.
    """
    channels = x.shape.dims[-1]
    if not isinstance(groups, int) or groups < 1 or channels.size % groups:
        raise ShapeError(
            f"group_norm '{name or 'group_norm'}': groups must be a number that divides '{channels.name}' (size "
            f"{channels.size}), not {groups!r}"
        )
    return _norm_of_cases("group_norm", x, channels.size // groups, epsilon, name)


def _norm_of_cases(kind: str, x: mtf.Tensor, group: int, epsilon: float, name: str | None) -> mtf.Tensor:
    if len(x.shape.dims) < 3:
        raise ShapeError(
            f"{kind} '{name or kind}' needs at least 3 dimensions (batch, a spatial one, channels), but its input has "
            f"{len(x.shape.dims)}: {x.shape}"
        )
    with tf.compat.v1.variable_scope(name, default_name=kind):
        scale, offset = _variable(x, "scale", 1.0), _variable(x, "offset", 0.0)
        return Normalize(kind, x, scale, offset, Sharing(by_case=True, group=group), epsilon).outputs[0]
