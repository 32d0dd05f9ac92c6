"""The weights of Keras layers, under the names and in the shapes that the layers of `mi.layers` have."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

Arrays = dict[str, np.ndarray]  # the weights of one layer by name; a conversion removes those that it uses


def _bias(weights: Arrays) -> Arrays:
    return {"bias": weights.pop("bias")} if "bias" in weights else {}


def _conv(weights: Arrays) -> Arrays:
    return {"filter": weights.pop("kernel"), **_bias(weights)}


def _dense(weights: Arrays) -> Arrays:
    return {"weights": weights.pop("kernel"), **_bias(weights)}


def _depthwise_filter(kernel: np.ndarray) -> np.ndarray:
    """Returns the filter of a grouped convolution.

    Args:
      kernel: array [kernel..., channels, multiplier].

    Returns:
      Array [kernel..., 1, channels x multiplier].
    """
    return kernel.reshape(*kernel.shape[:-2], 1, -1)


def _depthwise(weights: Arrays) -> Arrays:
    kernel = weights.pop("kernel" if "kernel" in weights else "depthwise_kernel")  # in Keras 3 and in Keras 2
    return {"filter": _depthwise_filter(kernel), **_bias(weights)}


def _separable(weights: Arrays) -> Arrays:
    return {
        "depthwise/filter": _depthwise_filter(weights.pop("depthwise_kernel")),
        "pointwise/filter": weights.pop("pointwise_kernel"),
        **_bias(weights),
    }


def _norm(weights: Arrays) -> Arrays:
    some = next(iter(weights.values()))
    return {
        "scale": weights.pop("gamma", np.ones_like(some)),  # a norm with scale=False or center=False lacks one
        "offset": weights.pop("beta", np.zeros_like(some)),
        **{name: weights.pop(name) for name in ("moving_mean", "moving_variance") if name in weights},
    }


class Kind(NamedTuple):
    """The counterpart of a Keras class.

    Attributes:
      layer: the layer of `mi.layers`.
      convert: returns the variables of this layer, and removes the weights that it uses from its argument.
      options: the values of options that this layer does not have; those of a tuple apply to each element.
    """

    layer: str
    convert: Callable[[Arrays], Arrays]
    options: dict[str, Any]


_LAST: dict[str, Any] = {"data_format": "channels_last"}
# {class in Keras: its counterpart}
LAYERS = {
    **dict.fromkeys(("Conv1D", "Conv2D", "Conv3D"), Kind("Conv", _conv, _LAST)),
    **dict.fromkeys(
        ("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose"),
        Kind("ConvTranspose", _conv, _LAST | {"dilation_rate": 1}),
    ),
    "DepthwiseConv2D": Kind("Conv", _depthwise, _LAST),
    "SeparableConv2D": Kind("SeparableConv", _separable, _LAST),
    "Dense": Kind("Dense", _dense, {}),
    "BatchNormalization": Kind("Norm", _norm, {"axis": -1, "renorm": False}),
    "LayerNormalization": Kind("Norm", _norm, {"axis": -1, "rms_scaling": False}),
    "GroupNormalization": Kind("Norm", _norm, {"axis": -1}),
}


def convert(layer: Any) -> Arrays:
    """Returns the variables of the counterpart of a layer, by their names within it.

    Raises:
      ValueError: the layer has no counterpart, or has weights or options that the counterpart lacks.
    """
    own = type(layer)
    if not (is_from_keras(own) and own.__name__ in LAYERS):
        base = next((each.__name__ for each in own.__mro__ if is_from_keras(each) and each.__name__ in LAYERS), None)
        raise ValueError(
            f"is a {own.__name__}, which "
            + (f"derives from {base} and may compute something else" if base else "has no counterpart in mi.layers")
        )
    kind, config = LAYERS[own.__name__], layer.get_config()
    last = len(layer.get_build_config()["input_shape"]) - 1 if "axis" in kind.options else None
    for option, needed in kind.options.items():
        value = config.get(option, needed)
        elements = [*value] if isinstance(value, list | tuple) else [value]
        if any(each != needed and not (option == "axis" and each == last) for each in elements):
            raise ValueError(
                f"is a {own.__name__} with {option} = {elements if len(elements) > 1 else elements[0]!r}, but "
                f"mi.layers.{kind.layer} has {needed!r}"
            )
    names = [weight.name.rpartition("/")[2].partition(":")[0] for weight in layer.weights]
    rest = {name: np.asarray(weight.numpy()) for name, weight in zip(names, layer.weights, strict=True)}
    values = kind.convert(rest)
    if rest or len({*names}) < len(names):
        raise ValueError(
            f"is a {own.__name__} with the weights {', '.join(names)}, but mi.layers.{kind.layer} has no counterpart "
            f"of {', '.join(rest) or 'weights with the same name'}"
        )
    return values


def is_from_keras(own: type) -> bool:
    """Returns whether Keras itself defines a class."""
    return own.__module__.partition(".")[0] in ("keras", "tf_keras")


def is_model(own: type) -> bool:
    """Returns whether a class is a Keras model, perhaps of the user's own class."""
    return any(is_from_keras(each) and each.__name__ == "Model" for each in own.__mro__)


def layers_with_weights(model: Any, only_keras: bool, scope: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the layers of a model that have weights, pairs of name and layer.

    The name of a layer within a nested model begins with the name of that model, such as `encoder/conv2d`.

    Args:
      model: the model.
      only_keras: whether to yield a nested model as one layer if its class is not one of Keras.
      scope: the names of the models around it.
    """
    for layer in model.layers:
        name = f"{scope}{layer.name}"
        if is_model(type(layer)) and (is_from_keras(type(layer)) or not only_keras):
            yield from layers_with_weights(layer, only_keras, f"{name}/")
        elif layer.weights:
            yield name, layer


def loose_weights(model: Any, scope: str = "") -> Iterator[str]:
    """Yields the names of the weights that a model, or a model within it, has besides those of its layers."""
    known = {id(weight) for layer in model.layers for weight in layer.weights}
    yield from (f"{scope}{weight.name}" for weight in model.weights if id(weight) not in known)
    for layer in model.layers:
        if is_model(type(layer)):
            yield from loose_weights(layer, f"{scope}{layer.name}/")
