"""Leaky ReLU and dropout: elementwise, so every dimension may be split and nothing is sent."""

import functools
from collections.abc import Sequence

import tensorflow as tf

from mtf_imaging.compat import mtf
from mtf_imaging.errors import ShapeError
from mtf_imaging.meshes.random.numbers import random_mask
from mtf_imaging.ops.inference import is_inference


class LeakyRelu(mtf.Operation):
    """`y = x where x > 0, else alpha x`, the ReLU for 0. The gradient is made from y: x need not be kept."""

    kind = "leaky_relu"

    def __init__(self, x: mtf.Tensor, alpha: float, name: str | None = None) -> None:
        super().__init__([x], name=name or self.kind)
        self._alpha = alpha
        self._outputs = [mtf.Tensor(self, x.shape, x.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor]) -> list[mtf.Tensor | None]:
        return [LeakyReluGrad(self.outputs[0], grad_ys[0], self._alpha).outputs[0]]

    def lower(self, lowering: mtf.Lowering) -> None:
        x = lowering.tensors[self.inputs[0]].to_laid_out_tensor()
        fn = functools.partial(tf.nn.leaky_relu, alpha=self._alpha) if self._alpha else tf.nn.relu
        y = lowering.mesh_impl(self).map_stacks(fn, x)
        lowering.set_tensor_lowering(self.outputs[0], y)


class LeakyReluGrad(mtf.Operation):
    """`dx = dy where y > 0, else alpha dy`."""

    kind = "leaky_relu_dx"

    def __init__(self, y: mtf.Tensor, dy: mtf.Tensor, alpha: float) -> None:
        super().__init__([y, dy], name=self.kind)
        self._alpha = alpha
        self._outputs = [mtf.Tensor(self, y.shape, y.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor]) -> list[mtf.Tensor | None]:
        return [None, LeakyReluGrad(self.inputs[0], grad_ys[0], self._alpha).outputs[0]]

    def lower(self, lowering: mtf.Lowering) -> None:
        y, dy = [lowering.tensors[t].to_laid_out_tensor() for t in self.inputs]
        dx = lowering.mesh_impl(self).map_stacks(
            lambda y, dy: tf.raw_ops.LeakyReluGrad(gradients=dy, features=y, alpha=self._alpha), y, dy
        )
        lowering.set_tensor_lowering(self.outputs[0], dx)


def leaky_relu(x: mtf.Tensor, alpha: float = 0.2, name: str | None = None) -> mtf.Tensor:
    """`x` where it is positive, `alpha x` elsewhere, as `tf.nn.leaky_relu`.

    Args:
      x: Tensor[...]
      alpha: slope for negative values, at least 0, which is the ReLU.
      name: name of the operation.

    Raises:
      ShapeError: alpha is below 0, so that `y` would not tell where `x` is positive.
    """
    if not alpha >= 0:
        raise ShapeError(f"leaky_relu '{name or 'leaky_relu'}': alpha must be at least 0, not {alpha}")
    return LeakyRelu(x, alpha, name).outputs[0]


class Dropout(mtf.Operation):
    """`y = x / keep_prob` where a random bit says so, else 0. Its gradient draws the same mask again: none is kept."""

    kind = "dropout"

    def __init__(self, x: mtf.Tensor, keep_prob: float, key_name: str | None = None, name: str | None = None) -> None:
        super().__init__([x], name=name or self.kind)
        self._keep_prob = keep_prob
        self._key_name = key_name or self.name
        self._outputs = [mtf.Tensor(self, x.shape, x.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor]) -> list[mtf.Tensor | None]:
        return [Dropout(grad_ys[0], self._keep_prob, self._key_name, f"{self.kind}_dx").outputs[0]]

    def lower(self, lowering: mtf.Lowering) -> None:
        mesh, x = lowering.mesh_impl(self), lowering.tensors[self.inputs[0]].to_laid_out_tensor()
        key = lowering.random_state.key(self._key_name)
        mask = random_mask(mesh, self.inputs[0].shape, key, self._keep_prob, after=x)

        def local(x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
            return tf.where(mask, x / tf.cast(self._keep_prob, x.dtype), tf.zeros([], x.dtype))

        y = mesh.map_stacks(local, x, mask)
        lowering.set_tensor_lowering(self.outputs[0], y)


def dropout(x: mtf.Tensor, keep_prob: float, name: str | None = None) -> mtf.Tensor:
    """Keeps each element with probability `keep_prob`, scaled by `1 / keep_prob`, and sets the others to 0.

    The mask depends on the program's seed and step, the operation's name and the element's position in the whole
    tensor: it is the same under every layout, and in every dtype.

    Args:
      x: Tensor[...]
      keep_prob: above 0, at most 1. With 1, and within `inference`, `x` itself is returned.
      name: name of the operation.

    Raises:
      ShapeError: keep_prob out of range.
    """
    if not 0 < keep_prob <= 1:
        raise ShapeError(f"dropout '{name or 'dropout'}': keep_prob must be above 0 and at most 1, not {keep_prob}")
    return x if keep_prob == 1 or is_inference() else Dropout(x, keep_prob, name=name).outputs[0]
