"""The activations that layers know by name."""

from collections.abc import Callable

from mtf_imaging.engine import ops
from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.layers.channels import JOINED, rename_channels

Activation = str | Callable[[mtf.Tensor], mtf.Tensor] | None


def _softmax(x: mtf.Tensor) -> mtf.Tensor:
    """Computes the softmax over the channels, which may be split."""
    y = rename_channels(x, JOINED)
    return rename_channels(ops.softmax(y, y.shape.dims[-1]), x.shape.dims[-1].name)


ACTIVATIONS: dict[str, Callable[[mtf.Tensor], mtf.Tensor]] = {
    "relu": ops.relu,
    "leaky_relu": ops.leaky_relu,
    "gelu": ops.gelu,
    "silu": ops.silu,
    "sigmoid": mtf.sigmoid,
    "tanh": mtf.tanh,
    "softmax": _softmax,
}


def activate(x: mtf.Tensor, activation: Activation) -> mtf.Tensor:
    """Applies an activation.

    Args:
      x: Tensor[...]
      activation: a key of `ACTIVATIONS`, a function or None.

    Returns:
      Tensor[...]
    """
    if activation is None:
        return x
    return (ACTIVATIONS[activation] if isinstance(activation, str) else activation)(x)
