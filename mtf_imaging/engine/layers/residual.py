"""The residual layer, which adds its input to the result of other layers."""

from collections.abc import Callable

import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.layers.activation import Activation, activate
from mtf_imaging.engine.layers.arguments import checked
from mtf_imaging.engine.layers.conv import Conv
from mtf_imaging.engine.layers.layer import Layer
from mtf_imaging.engine.layers.spatial import Sizes
from mtf_imaging.errors import ConfigError, ShapeError


class Residual(Layer):
    """Calls layers one after the other, and adds the input to the result (He et al. 2016, arXiv:1512.03385).

    If the result has a different number of channels or the layers have strides, a convolution with a kernel size of 1
    and the same strides first converts the input. Its weights are `NAME/shortcut/filter` and `NAME/shortcut/bias`. The
    layers within the residual layer are numbered within the scope `NAME`.

    Args:
      *layers: layers, or functions of a tensor.
      activation: activation of the sum, see `Conv`.
      shortcut: a layer or a function that converts the input instead. It is always called.
      name: see `Layer`.
    """

    default_name = "residual"

    def __init__(
        self,
        *layers: Callable[[mtf.Tensor], mtf.Tensor],
        activation: Activation = None,
        shortcut: Callable[[mtf.Tensor], mtf.Tensor] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        for number, layer in enumerate(layers, 1):
            if not callable(layer):
                raise ConfigError(
                    f"{self._title}: argument {number} is {layer!r}, which is not a layer. Fix: use a layer or a "
                    "function of a tensor, and name arguments such as activation='relu'."
                )
        self.layers = layers
        self.activation = None if activation is None else checked(self._title, "activation", activation)
        self.shortcut = None if shortcut is None else checked(self._title, "shortcut", shortcut)

    @property
    def strides(self) -> Sizes:
        """The product of all layers' strides: one int, or one for each spatial dimension."""
        product: Sizes = 1
        for layer in self.layers:
            product = _product(product, getattr(layer, "strides", 1))
        return product

    def call(self, x: mtf.Tensor, name: str) -> mtf.Tensor:
        with tf.compat.v1.variable_scope(name):
            y = x
            for number, layer in enumerate(self.layers, 1):
                y = self._checked(layer(y), f"argument {number}")
            x = self._checked(self.shortcut(x), "shortcut") if self.shortcut else self._projected(x, y)
            if x.shape != y.shape:
                raise ShapeError(
                    f"{self._title}: the input has the shape {x.shape} and the result of the layers {y.shape}, so they "
                    "cannot be added. Fix: use layers with padding 'same', or a shortcut that returns a tensor of the "
                    "second shape."
                )
            return activate(x + y, self.activation)

    def _checked(self, result: object, argument: str) -> mtf.Tensor:
        """Returns the result of a layer or a function if it is a tensor."""
        if not isinstance(result, mtf.Tensor):
            raise ConfigError(
                f"{self._title}: {argument} returned {type(result).__name__}, not a tensor. Fix: return the result of "
                "the layer or the function."
            )
        return result

    def _projected(self, x: mtf.Tensor, y: mtf.Tensor) -> mtf.Tensor:
        if x.shape == y.shape:
            return x
        strides = self.strides
        size = 1 if isinstance(strides, int) else (1,) * len(strides)
        return Conv(y.shape.dims[-1].size, size, strides, name="shortcut")(x)


def _product(a: Sizes, b: Sizes) -> Sizes:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    number = len(a) if not isinstance(a, int) else len(b)  # type: ignore[arg-type]
    pairs = zip(*([size] * number if isinstance(size, int) else size for size in (a, b)), strict=True)
    return tuple(first * second for first, second in pairs)
