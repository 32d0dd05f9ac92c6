"""Batch, instance and group norm, with statistics of the whole tensor under any layout."""

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.layout import format_shape
from mtf_imaging.engine.ops.freezing import is_frozen
from mtf_imaging.engine.ops.inference import is_inference
from mtf_imaging.engine.ops.inputs import check_floating, is_number
from mtf_imaging.engine.ops.norm.normalization import Normalize, Sharing
from mtf_imaging.engine.ops.precision import master_dtype
from mtf_imaging.errors import ConfigError, ShapeError


def channel_variable(x: mtf.Tensor, key: str, initial: float, trainable: bool = True) -> mtf.Tensor:
    """Returns a variable with one value for each channel of `x`."""
    channels, initializer = mtf.Shape(x.shape.dims[-1:]), tf.constant_initializer(initial)
    dtype = master_dtype(x.dtype)
    return mtf.get_variable(x.mesh, key, channels, dtype=dtype, initializer=initializer, trainable=trainable)


def check_norm(title: str, x: Any, epsilon: Any) -> None:
    """Checks the input and the epsilon of a norm.

    Args:
      title: kind and name of the operation, for error messages.
      x: the input.
      epsilon: the number that is added to the variance.

    Raises:
      ConfigError: `x` is not a tensor, or `epsilon` is not a number of at least 0.
      ShapeError: `x` has integers.
    """
    check_floating(title, x)
    if not is_number(epsilon) or not epsilon >= 0:
        raise ConfigError(f"{title}: epsilon = {epsilon!r}. Fix: use a number of at least 0, such as 1e-6.")


def check_count(kind: str, x: mtf.Tensor, dims: Sequence[mtf.Dimension], group: int = 1) -> None:
    """Checks that a norm has more than one value for its statistics; call it in the scope of its variables.

    Args:
      kind: kind of the operation, for the message.
      x: the input.
      dims: the dimensions over which values share statistics.
      group: number of channels that share statistics.

    Raises:
      ShapeError: there is only one value, which the norm would map to the offset whatever it is.
    """
    if math.prod(dim.size for dim in dims) * group == 1:
        sizes = format_shape((dim.name, dim.size) for dim in x.shape.dims)
        fixes = {
            "batch_norm": "larger images or patches, a larger batch, fewer micro-batches, or fewer levels",
            "layer_norm": "more channels",
        }
        fix = fixes.get(kind, "larger images or patches, or a network with fewer levels")
        raise ShapeError(
            f"{kind} '{tf.compat.v1.get_variable_scope().name}' has only one value for each mean and variance, because "
            f"its input is [{sizes}], so the layers before it would get no gradient. Fix: use {fix}."
        )


def batch_norm(
    x: mtf.Tensor, is_training: bool, momentum: float = 0.9, epsilon: float = 1e-6, name: str | None = None
) -> mtf.Tensor:
    """Applies batch normalization (Ioffe and Szegedy 2015, arXiv:1502.03167).

    `y = (x - mean) / sqrt(variance + epsilon) scale + offset`

    In training, the mean and the (biased) variance of a channel are computed over the whole batch and volume. The
    function creates four variables with one value for each channel. They are float32 if `x` has fewer bits.

    - `scale` (initially 1) and `offset` (initially 0) are trained.
    - `moving_mean` (initially 0) and `moving_variance` (initially 1) are not trained. Every training call updates them:
      `moving = momentum moving + (1 - momentum) statistic`. If a step calls the same norm several times, for instance
      in a shared encoder, the updates follow one another in the order of the calls. A call that normalizes by them
      uses their values from before the step.

    Every dimension may be split. Processors exchange two sums per channel in the forward pass, and two in the backward
    pass. The two forward sums share one message, except in float64: there, the mean and the squared deviations from it
    are two messages.

    Args:
      x: Tensor[batch..., x, y, z, channels]
      is_training: whether to normalize by the statistics of the batch and to update the moving statistics. If False,
        within `inference`, and if `freezing` matches the moving statistics, the function normalizes by the moving
        statistics.
      momentum: fraction of the moving statistics that an update keeps.
      epsilon: a number that is added to the variance.
      name: variable scope.

    Returns:
      Tensor[batch..., x, y, z, channels]

    Raises:
      ShapeError: in training, there is only one value in the whole batch and volume.
    """
    title = f"batch_norm '{name or 'batch_norm'}'"
    check_norm(title, x, epsilon)
    if not is_number(momentum) or not 0 <= momentum <= 1:
        raise ConfigError(f"{title}: momentum = {momentum!r}. Fix: use a number from 0 to 1.")
    with tf.compat.v1.variable_scope(name, default_name="batch_norm"):
        scale, offset = channel_variable(x, "scale", 1.0), channel_variable(x, "offset", 0.0)
        moving_mean, moving_variance = (
            channel_variable(x, "moving_mean", 0.0, False),
            channel_variable(x, "moving_variance", 1.0, False),
        )
        keeps_statistics = is_inference() or any(is_frozen(x.operation.name) for x in (moving_mean, moving_variance))
        if is_training and not keeps_statistics:
            check_count("batch_norm", x, x.shape.dims[:-1])
            y, mean, variance = Normalize("batch_norm", x, scale, offset, Sharing(), epsilon).outputs

            # Unlike the value that the program reads, `moving` includes the updates of earlier calls in the same step.
            def update(variable: mtf.Variable, moving: tf.Variable, value: tf.Tensor) -> tf.Operation:
                value = tf.cast(value, variable.master_dtype)
                return moving.assign(moving * momentum + value * (1 - momentum), read_value=False)

            mtf.assign(moving_mean, mean, update)
            mtf.assign(moving_variance, variance, update)
            return y
        factor = scale * mtf.rsqrt(moving_variance + epsilon)
        return mtf.cast(mtf.cast(x, scale.dtype) * factor + (offset - moving_mean * factor), x.dtype)


def instance_norm(x: mtf.Tensor, epsilon: float = 1e-6, name: str | None = None) -> mtf.Tensor:
    """Applies instance normalization (Ulyanov et al. 2016, arXiv:1607.08022).

    `y = (x - mean) / sqrt(variance + epsilon) scale + offset`

    The mean and the (biased) variance are computed for each channel over the whole volume of one case, in training and
    in evaluation. There are no moving statistics. The variables and the exchanges are the same as in `group_norm`.

    Args:
      x: Tensor[batch, x, y, z, channels]. The dimensions between the first and the last one are the volume.
      epsilon: a number that is added to the variance.
      name: variable scope.

    Returns:
      Tensor[batch, x, y, z, channels]

    Raises:
      ShapeError: `x` has fewer than 3 dimensions, or a volume of one voxel.
    """
    return _per_case_norm("instance_norm", x, 1, epsilon, name)


def group_norm(x: mtf.Tensor, groups: int, epsilon: float = 1e-6, name: str | None = None) -> mtf.Tensor:
    """Applies group normalization (Wu and He 2018, arXiv:1803.08494).

    `y = (x - mean) / sqrt(variance + epsilon) scale + offset`

    The mean and the (biased) variance are computed for each group of `channels / groups` consecutive channels over the
    whole volume of one case, in training and in evaluation. The function creates the variables `scale` (initially 1)
    and `offset` (initially 0), with one value for each channel. They are float32 if `x` has fewer bits.

    Every dimension may be split. Processors exchange two sums per channel and case in the forward pass, and two in the
    backward pass, in as many messages as for `batch_norm`. If the layout splits the channels within a group, they also
    exchange the means of all channels.

    Args:
      x: Tensor[batch, x, y, z, channels]. The dimensions between the first and the last one are the volume.
      groups: number of groups, which must divide the number of channels. One group normalizes all channels together.
      epsilon: a number that is added to the variance.
      name: variable scope.

    Returns:
      Tensor[batch, x, y, z, channels]

    Raises:
      ShapeError: `groups` does not divide the number of channels, `x` has fewer than 3 dimensions, or a group has only
        one value: one channel of one voxel.
    """
    check_norm(f"group_norm '{name or 'group_norm'}'", x, epsilon)
    channels = x.shape.dims[-1]
    if not isinstance(groups, int) or groups < 1 or channels.size % groups:
        raise ShapeError(
            f"group_norm '{name or 'group_norm'}': groups must be an int that divides '{channels.name}' (size "
            f"{channels.size}), not {groups!r}"
        )
    return _per_case_norm("group_norm", x, channels.size // groups, epsilon, name)


def _per_case_norm(kind: str, x: mtf.Tensor, group: int, epsilon: float, name: str | None) -> mtf.Tensor:
    check_norm(f"{kind} '{name or kind}'", x, epsilon)
    if len(x.shape.dims) < 3:
        raise ShapeError(
            f"{kind} '{name or kind}' needs at least 3 dimensions (batch, a spatial one, channels), but its input has "
            f"{len(x.shape.dims)}: {x.shape}"
        )
    with tf.compat.v1.variable_scope(name, default_name=kind):
        check_count(kind, x, x.shape.dims[1:-1], group)
        scale, offset = channel_variable(x, "scale", 1.0), channel_variable(x, "offset", 0.0)
        return Normalize(kind, x, scale, offset, Sharing(by_case=True, group=group), epsilon).outputs[0]
