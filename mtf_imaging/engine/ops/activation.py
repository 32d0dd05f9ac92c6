"""ReLU, leaky ReLU and dropout.

Both are elementwise: every dimension may be split, and no data is exchanged.
"""

import functools
from collections.abc import Sequence
from decimal import Decimal

import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.meshes.random.numbers import random_mask
from mtf_imaging.engine.ops.inference import is_inference
from mtf_imaging.engine.ops.inputs import check_tensor
from mtf_imaging.errors import ShapeError


class LeakyRelu(mtf.Operation):
    """`y = x where x > 0, else negative_slope x`.

    The gradient is computed from `y`, so `x` is not kept for the backward pass. If a dropout follows, the gradient is
    computed from its result, and `y` is not kept either: the gradient is 0 where the dropout drops, and the signs are
    equal elsewhere.
    """

    kind = "leaky_relu"

    def __init__(self, x: mtf.Tensor, negative_slope: float, name: str | None = None) -> None:
        super().__init__([x], name=name or self.kind)
        self._negative_slope = negative_slope
        self._outputs = [mtf.Tensor(self, x.shape, x.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor]) -> list[mtf.Tensor | None]:
        (y,), (dy,) = self.outputs, grad_ys
        dropout = dy.operation.gradient_of if isinstance(dy.operation, Dropout) else None
        if dropout and dropout.inputs[0] is y:
            (y,) = dropout.outputs
        return [LeakyReluGrad(y, dy, self._negative_slope).outputs[0]]

    def lower(self, lowering: mtf.Lowering) -> None:
        x = lowering.tensors[self.inputs[0]].to_laid_out_tensor()
        slope = self._negative_slope
        fn = functools.partial(tf.nn.leaky_relu, alpha=slope) if slope else tf.nn.relu
        y = lowering.mesh_impl(self).elementwise(fn, x)
        lowering.set_tensor_lowering(self.outputs[0], y)


class LeakyReluGrad(mtf.Operation):
    """`dx = dy where y > 0, else negative_slope dy`."""

    kind = "leaky_relu_dx"

    def __init__(self, y: mtf.Tensor, dy: mtf.Tensor, negative_slope: float) -> None:
        super().__init__([y, dy], name=self.kind)
        self._negative_slope = negative_slope
        self._outputs = [mtf.Tensor(self, y.shape, y.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor]) -> list[mtf.Tensor | None]:
        return [None, LeakyReluGrad(self.inputs[0], grad_ys[0], self._negative_slope).outputs[0]]

    def lower(self, lowering: mtf.Lowering) -> None:
        y, dy = [lowering.tensors[t].to_laid_out_tensor() for t in self.inputs]
        dx = lowering.mesh_impl(self).elementwise(
            lambda y, dy: tf.raw_ops.LeakyReluGrad(gradients=dy, features=y, alpha=self._negative_slope), y, dy
        )
        lowering.set_tensor_lowering(self.outputs[0], dx)


def leaky_relu(x: mtf.Tensor, negative_slope: float = 0.2, name: str | None = None) -> mtf.Tensor:
    """Computes the leaky ReLU activation, like `tf.nn.leaky_relu`.

    `y = x where x > 0, else negative_slope x`

    Every dimension may be split.

    Args:
      x: Tensor[...]
      negative_slope: slope for negative values, at least 0. A slope of 0 is the ReLU.
      name: name of the operation.

    Returns:
      Tensor[...] with the shape and dtype of `x`.

    Raises:
      ShapeError: `negative_slope` is below 0. The gradient infers the sign of `x` from the sign of `y`, which is not
        possible with a negative slope.
    """
    check_tensor(f"leaky_relu '{name or 'leaky_relu'}'", x)
    if not negative_slope >= 0:
        raise ShapeError(
            f"leaky_relu '{name or 'leaky_relu'}': negative_slope must be at least 0, not {negative_slope}"
        )
    return LeakyRelu(x, negative_slope, name).outputs[0]


def relu(x: mtf.Tensor, name: str | None = None) -> mtf.Tensor:
    """Computes the rectified linear unit `max(x, 0)`, like `tf.nn.relu`.

    Every dimension may be split. The backward pass keeps only the result, or only the result of a dropout that follows.

    Args:
      x: Tensor[...]
      name: name of the operation.

    Returns:
      Tensor[...] with the shape and dtype of `x`.
    """
    check_tensor(f"relu '{name or 'relu'}'", x)
    return LeakyRelu(x, 0.0, name or "relu").outputs[0]


class Dropout(mtf.Operation):
    """`y = x / (1 - rate)` where a random mask is true, else 0.

    The gradient draws the same mask again, so no mask is kept for the backward pass.

    Attributes:
      gradient_of: the dropout whose gradient this operation computes, with the same mask; None in the forward pass.
    """

    kind = "dropout"

    def __init__(
        self, x: mtf.Tensor, rate: float, name: str | None = None, gradient_of: "Dropout | None" = None
    ) -> None:
        super().__init__([x], name=name or self.kind)
        self.gradient_of = gradient_of
        self._rate = rate
        self._key_name: str = gradient_of._key_name if gradient_of else self.name
        self._outputs = [mtf.Tensor(self, x.shape, x.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor]) -> list[mtf.Tensor | None]:
        return [Dropout(grad_ys[0], self._rate, f"{self.kind}_dx", self).outputs[0]]

    def lower(self, lowering: mtf.Lowering) -> None:
        mesh, x = lowering.mesh_impl(self), lowering.tensors[self.inputs[0]].to_laid_out_tensor()
        key, kept = lowering.random_state.key(self._key_name), kept_fraction(self._rate)
        mask = random_mask(mesh, self.inputs[0].shape, key, kept, after=x)

        def local(x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
            return tf.where(mask, x / tf.cast(kept, x.dtype), tf.zeros([], x.dtype))

        y = mesh.map_stacks(local, x, mask)
        lowering.set_tensor_lowering(self.outputs[0], y)


def kept_fraction(rate: float) -> float:
    """Returns `1 - rate`, computed in decimal: in binary floating point, `1 - 0.9` is not 0.1.

    >>> kept_fraction(0.9), 1 - 0.9
    (0.1, 0.09999999999999998)
    """
    return float(1 - Decimal(str(rate)))


def dropout(x: mtf.Tensor, rate: float, name: str | None = None) -> mtf.Tensor:
    """Sets a random fraction `rate` of the elements to 0, and scales the others by `1 / (1 - rate)`.

    The mask depends only on the seed and the step of the program, the name of the operation, and the position of each
    element in the whole tensor. In an `mtf.while_loop`, it also depends on the iteration. It is therefore the same
    under every layout and in every dtype. Every dimension may be split.

    Args:
      x: Tensor[...]
      rate: fraction of the elements to drop, at least 0 and below 1. With a rate of 0, and within `inference`, the
        function returns `x` itself.
      name: name of the operation.

    Returns:
      Tensor[...] with the shape and dtype of `x`.

    Raises:
      ShapeError: `rate` is below 0, or at least 1.
    """
    check_tensor(f"dropout '{name or 'dropout'}'", x)
    if not 0 <= rate < 1:
        raise ShapeError(f"dropout '{name or 'dropout'}': rate must be at least 0 and below 1, not {rate}")
    return x if rate == 0 or is_inference() else Dropout(x, rate, name=name).outputs[0]
