"""The smooth activations GELU and SiLU.

Both are elementwise: every dimension may be split, and no data is exchanged. The backward pass keeps only `x`.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence

import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.meshes.portable import is_portable, widest_dtype
from mtf_imaging.engine.ops.inputs import check_floating
from mtf_imaging.engine.ops.precision import master_dtype


@dataclasses.dataclass(frozen=True)
class _Function:
    """A function of one variable.

    Attributes:
      value: the function of a tensor.
      slope: its first derivative.
    """

    value: Callable[[tf.Tensor], tf.Tensor]
    slope: Callable[[tf.Tensor], tf.Tensor]

    def derivative(self, x: tf.Tensor, order: int) -> tf.Tensor:
        """Returns the derivative of a given order. Derivatives above the first one are derivatives of `slope`."""
        if order < 2:
            return self.slope(x) if order else self.value(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            lower = self.derivative(x, order - 1)
        return tape.gradient(lower, x)


def _normal_cdf(x: tf.Tensor) -> tf.Tensor:
    """Returns the probability that a standard normal number is below `x`."""
    # The complement has no cancellation where the probability is close to 0.
    return 0.5 * tf.math.erfc(x * -math.sqrt(0.5))


def _gelu(x: tf.Tensor) -> tf.Tensor:
    if is_portable():
        # ONNX has no complement of the error function. The TFLite converter knows TensorFlow's formula.
        is_tflite = widest_dtype() != tf.float64
        return tf.nn.gelu(x) if is_tflite else 0.5 * x * (1 + tf.math.erf(x * math.sqrt(0.5)))
    return x * _normal_cdf(x)


def _normal_density(x: tf.Tensor) -> tf.Tensor:
    return tf.exp(-0.5 * tf.square(x)) * math.sqrt(0.5 / math.pi)


_TANH_SCALE, _TANH_CUBE = math.sqrt(2 / math.pi), 0.044715  # Hendrycks and Gimpel 2016, section 2


def _tanh_cdf(x: tf.Tensor) -> tf.Tensor:
    return 0.5 * (1 + tf.tanh(_TANH_SCALE * (x + _TANH_CUBE * x**3)))


def _tanh_slope(x: tf.Tensor) -> tf.Tensor:
    p = _tanh_cdf(x)
    return p + 2 * x * p * (1 - p) * _TANH_SCALE * (1 + 3 * _TANH_CUBE * x * x)


def _silu_slope(x: tf.Tensor) -> tf.Tensor:
    s = tf.sigmoid(x)
    return s * (1 + x * (1 - s))


_FUNCTIONS = {
    "gelu": _Function(_gelu, lambda x: _normal_cdf(x) + x * _normal_density(x)),
    "gelu_tanh": _Function(lambda x: x * _tanh_cdf(x), _tanh_slope),
    "silu": _Function(lambda x: x * tf.sigmoid(x), _silu_slope),
}


class Smooth(mtf.Operation):
    """`y = f(x)`.

    16-bit numbers are converted to float32 and back, because the formulas have several roundings.
    """

    def __init__(self, function: str, x: mtf.Tensor, name: str | None) -> None:
        super().__init__([x], name=name or function)
        self.kind = function
        self._outputs = [mtf.Tensor(self, x.shape, x.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor]) -> list[mtf.Tensor | None]:
        return [SmoothGrad(self.kind, self.inputs[0], grad_ys[0], 1).outputs[0]]

    def lower(self, lowering: mtf.Lowering) -> None:
        def local(x: tf.Tensor) -> tf.Tensor:
            return tf.cast(_FUNCTIONS[self.kind].value(tf.cast(x, master_dtype(x.dtype))), x.dtype)

        x = lowering.tensors[self.inputs[0]].to_laid_out_tensor()
        lowering.set_tensor_lowering(self.outputs[0], lowering.mesh_impl(self).map_stacks(local, x))


class SmoothGrad(mtf.Operation):
    """`dx = dy d^n f / dx^n`, where n is the order of the derivative."""

    def __init__(self, function: str, x: mtf.Tensor, dy: mtf.Tensor, order: int) -> None:
        super().__init__([x, dy], name=f"{function}_dx")
        self.kind, self._order = function, order
        self._outputs = [mtf.Tensor(self, x.shape, x.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor]) -> list[mtf.Tensor | None]:
        (x, dy), (ddx,) = self.inputs, grad_ys
        return [
            SmoothGrad(self.kind, x, dy * ddx, self._order + 1).outputs[0],
            SmoothGrad(self.kind, x, ddx, self._order).outputs[0],
        ]

    def lower(self, lowering: mtf.Lowering) -> None:
        def local(x: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
            wide = master_dtype(x.dtype)
            slope = _FUNCTIONS[self.kind].derivative(tf.cast(x, wide), self._order)
            return tf.cast(tf.cast(dy, wide) * slope, x.dtype)

        x, dy = [lowering.tensors[t].to_laid_out_tensor() for t in self.inputs]
        lowering.set_tensor_lowering(self.outputs[0], lowering.mesh_impl(self).map_stacks(local, x, dy))


def gelu(x: mtf.Tensor, approximate: bool = False, name: str | None = None) -> mtf.Tensor:
    """Computes the Gaussian error linear unit (Hendrycks and Gimpel 2016, arXiv:1606.08415), like `tf.nn.gelu`.

    `y = x P(X <= x)`, where X is a standard normal number. Every dimension may be split. In float64, the result is
    accurate to 16 digits; `tf.nn.gelu` is accurate to the 8 digits of its constants.

    Args:
      x: Tensor[...]
      approximate: whether to compute `0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))` instead.
      name: name of the operation.

    Returns:
      Tensor[...] with the shape and dtype of `x`.

    Raises:
      ShapeError: `x` has integers.
    """
    return _smooth("gelu_tanh" if approximate else "gelu", x, name)


def silu(x: mtf.Tensor, name: str | None = None) -> mtf.Tensor:
    """Computes the sigmoid linear unit or swish, `y = x sigmoid(x)`, like `tf.nn.silu`.

    Every dimension may be split.

    Args:
      x: Tensor[...]
      name: name of the operation.

    Returns:
      Tensor[...] with the shape and dtype of `x`.

    Raises:
      ShapeError: `x` has integers.
    """
    return _smooth("silu", x, name)


def _smooth(function: str, x: mtf.Tensor, name: str | None) -> mtf.Tensor:
    check_floating(f"{function} '{name or function}'", x)
    return Smooth(function, x, name).outputs[0]
