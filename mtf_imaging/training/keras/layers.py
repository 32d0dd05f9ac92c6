"""The weights of Keras layers, under the names and in the shapes that the layers of `mi.layers` have."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray]  # the weights of one layer by name


def _bias(weights: Arrays) -> dict[str, np.ndarray]:
    return {"bias": weights["bias"]} if "bias" in weights else {}


def _conv(weights: Arrays) -> dict[str, np.ndarray]:
    return {"filter": weights["kernel"], **_bias(weights)}


def _dense(weights: Arrays) -> dict[str, np.ndarray]:
    return {"weights": weights["kernel"], **_bias(weights)}


def _depthwise_filter(kernel: np.ndarray) -> np.ndarray:
    """Returns the filter of a grouped convolution.

    Args:
      kernel: array [kernel..., channels, multiplier].

    Returns:
      Array [kernel..., 1, channels x multiplier].
    """
    return kernel.reshape(*kernel.shape[:-2], 1, -1)


def _depthwise(weights: Arrays) -> dict[str, np.ndarray]:
    kernel = weights["kernel"] if "kernel" in weights else weights["depthwise_kernel"]  # in Keras 3 and in Keras 2
    return {"filter": _depthwise_filter(kernel), **_bias(weights)}


def _separable(weights: Arrays) -> dict[str, np.ndarray]:
    return {
        "depthwise/filter": _depthwise_filter(weights["depthwise_kernel"]),
        "pointwise/filter": weights["pointwise_kernel"],
        **_bias(weights),
    }


def _norm(weights: Arrays) -> dict[str, np.ndarray]:
    some = next(iter(weights.values()))
    return {
        "scale": weights.get("gamma", np.ones_like(some)),  # a norm with scale=False or center=False lacks one
        "offset": weights.get("beta", np.zeros_like(some)),
        **{name: weights[name] for name in ("moving_mean", "moving_variance") if name in weights},
    }


# {class in Keras: (layer of mi.layers, function of the weights)}
LAYERS: dict[str, tuple[str, Callable[[Arrays], dict[str, np.ndarray]]]] = {
    **dict.fromkeys(("Conv1D", "Conv2D", "Conv3D"), ("Conv", _conv)),
    **dict.fromkeys(("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose"), ("ConvTranspose", _conv)),
    "DepthwiseConv2D": ("Conv", _depthwise),
    "SeparableConv2D": ("SeparableConv", _separable),
    "Dense": ("Dense", _dense),
    "BatchNormalization": ("Norm", _norm),
    "LayerNormalization": ("Norm", _norm),
    "GroupNormalization": ("Norm", _norm),
}


def layers_with_weights(model: Any, scope: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the layers of a model that have weights, pairs of name and layer.

    The name of a layer within a nested model begins with the name of that model, such as `encoder/conv2d`.
    """
    for layer in model.layers:
        name = f"{scope}{layer.name}"
        if isinstance(getattr(layer, "layers", None), list | tuple):
            yield from layers_with_weights(layer, f"{name}/")
        elif layer.weights:
            yield name, layer


def class_name(layer: Any) -> str:
    """Returns the name of the `LAYERS` class that a layer has or derives from; otherwise the name of its own class."""
    own = type(layer)
    return next((each.__name__ for each in own.__mro__ if each.__name__ in LAYERS), own.__name__)


def weights_of(layer: Any) -> dict[str, np.ndarray]:
    """Returns the weights of a layer by their names in Keras, such as "kernel"."""
    return {weight.name.rpartition("/")[2].partition(":")[0]: np.asarray(weight.numpy()) for weight in layer.weights}
