"""The weights of layers, and their initial values."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.ops import bias
from mtf_imaging.engine.ops.precision import master_dtype
from mtf_imaging.errors import ShapeError

# Functions without arguments, so that each variable has its own initializer.
INITIALIZERS: dict[str, Callable[[], Callable]] = {
    # He et al. 2015, arXiv:1502.01852
    "he_normal": lambda: tf.compat.v1.variance_scaling_initializer(2.0, "fan_in"),
    # Glorot and Bengio 2010
    "glorot_uniform": tf.compat.v1.glorot_uniform_initializer,
    # LeCun et al. 1998, "Efficient BackProp"
    "lecun_normal": lambda: tf.compat.v1.variance_scaling_initializer(1.0, "fan_in"),
    "zeros": tf.compat.v1.zeros_initializer,
}

# A key of `INITIALIZERS`, or a TensorFlow initializer. For a bias, also a number, or a number for each filter.
Initializer = str | float | Sequence[float] | Callable


def initializer(value: Initializer) -> Callable:
    """Returns an initializer of TensorFlow."""
    if isinstance(value, str):
        return INITIALIZERS[value]()
    return value if callable(value) else tf.compat.v1.constant_initializer(value)


def variable(x: mtf.Tensor, name: str, dims: Sequence[mtf.Dimension], initializer: Callable) -> mtf.Tensor:
    """Creates a weight in the current scope, or returns the weight that already has this name.

    The weight is float32 if `x` has fewer bits, and is cast to the dtype of `x`. Its gradient is therefore float32 or
    larger, too.

    Args:
      x: the tensor that the weight is used with.
      name: name of the weight.
      dims: the dimensions of the weight.
      initializer: a TensorFlow initializer, which is called with the shape and the dtype.

    Returns:
      Tensor[dims...] with the dtype of `x`.

    Raises:
      ShapeError: `x` has integers, or the weight with this name has other dimensions.
    """
    shape = mtf.Shape(dims)
    if not x.dtype.is_floating:
        scope = tf.compat.v1.get_variable_scope().name
        raise ShapeError(
            f"the weight '{f'{scope}/{name}' if scope else name}': the input {x.shape} of its layer is "
            f"{x.dtype.name}, but it must have floating-point numbers. Fix: convert it with mtf.cast."
        )
    master = mtf.get_variable(x.mesh, name, shape, dtype=master_dtype(x.dtype), initializer=initializer)
    if master.shape != shape:
        raise ShapeError(
            f"the weight '{master.operation.name}' has the shape {master.shape}, but a layer of this name needs "
            f"{shape}. Fix: give each layer a name of its own, or call a layer only on tensors with as many channels."
        )
    return mtf.cast(master, x.dtype)


def add_bias(x: mtf.Tensor, initial: Initializer) -> mtf.Tensor:
    """Adds the variable `bias` along the last dimension of `x`.

    Args:
      x: Tensor[..., channels]
      initial: the first values of the bias.

    Returns:
      Tensor[..., channels]

    Raises:
      ShapeError: `initial` has another number of values than `x` has channels.
    """
    channels = x.shape.dims[-1].size
    if not isinstance(initial, str) and not callable(initial) and np.shape(initial) not in ((), (channels,)):
        raise ShapeError(
            f"the layer '{tf.compat.v1.get_variable_scope().name}': bias_initializer has the shape "
            f"{list(np.shape(initial))}, but the layer has {channels} filters. Fix: use one number, or {channels} "
            "numbers."
        )
    return bias.add_bias(x, variable(x, "bias", x.shape.dims[-1:], initializer(initial)))
