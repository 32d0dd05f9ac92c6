"""The bias of a convolution."""

import math
from collections.abc import Sequence

import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.meshes.local import elementwise, reshape
from mtf_imaging.errors import ShapeError


class AddBias(mtf.Operation):
    """`y = x + bias`, lowered so that TensorFlow can fuse it with the convolution before and the activation after."""

    kind = "add_bias"

    def __init__(self, x: mtf.Tensor, bias: mtf.Tensor, name: str | None = None) -> None:
        super().__init__([x, bias], name=name or self.kind)
        self._outputs = [mtf.Tensor(self, x.shape, x.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor]) -> list[mtf.Tensor | None]:
        (dy,), (_, bias) = grad_ys, self.inputs
        return [dy, mtf.reduce_sum(dy, output_shape=bias.shape)]

    def lower(self, lowering: mtf.Lowering) -> None:
        mesh = lowering.mesh_impl(self)
        x, bias = [lowering.tensors[t].to_laid_out_tensor() for t in self.inputs]
        lowering.set_tensor_lowering(self.outputs[0], mesh.map_stacks(_add, x, bias))


def _add(x: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """Adds a stack of biases, `[1, channels]` or `[n, channels]`, to a stack `[n, ..., channels]`."""
    if bias.shape[0] == 1:
        return elementwise(lambda x: tf.nn.bias_add(x, bias[0]), x, by_channel=True)
    rows = reshape(x, [x.shape[0], math.prod(x.shape[1:-1]), x.shape[-1]])
    return reshape(rows + bias[:, tf.newaxis], x.shape)


def add_bias(x: mtf.Tensor, bias: mtf.Tensor, name: str | None = None) -> mtf.Tensor:
    """Adds a bias along the last dimension, like `tf.nn.bias_add`.

    `y[..., channels] = x[..., channels] + bias[channels]`

    The result equals `x + bias`. TensorFlow fuses this operation with a convolution before it and with a leaky
    ReLU after it into one kernel. Every dimension may be split.

    Args:
      x: Tensor[batch..., spatial..., channels]
      bias: Tensor[channels] with the dtype of `x`.
      name: name of the operation.

    Returns:
      Tensor[batch..., spatial..., channels] with the shape and dtype of `x`.

    Raises:
      ShapeError: the shape or the dtype of the bias does not fit.
    """
    title = f"add_bias '{name or AddBias.kind}'"
    if bias.shape.dims != x.shape.dims[-1:]:
        raise ShapeError(f"{title}: the bias must have the last dimension of the input {x.shape}, but has {bias.shape}")
    if bias.dtype != x.dtype:
        raise ShapeError(
            f"{title}: the bias is {bias.dtype.name}, but the input is {x.dtype.name}. "
            "Fix: convert the bias with mtf.cast."
        )
    return AddBias(x, bias, name).outputs[0]
