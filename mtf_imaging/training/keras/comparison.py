"""Compares what a Keras model and a program compute."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.program.program import Program
from mtf_imaging.errors import CheckpointError, ConfigError

# The largest difference, as a fraction of the largest value of an output.
TOLERANCE, HALF_TOLERANCE = 1e-4, 5e-2
_HALF_BYTES = 2  # of a value in bfloat16 and float16
_SKIP = "or pass verify=False to import the weights without a comparison"


def largest_difference(model: Any, program: Program, expected: Callable[[Any], Any]) -> float:
    """Runs a model and a program on the same random inputs, and compares their outputs.

    Args:
      model: the Keras model.
      program: the program, with the weights of the model. The call may change its variables.
      expected: a function from the outputs of the model to those of the program.

    Returns:
      The largest difference, as a fraction of the largest value of its output.

    Raises:
      CheckpointError: the outputs differ.
      ConfigError: they cannot be compared.
    """
    title, specs = f"Keras model '{model.name}'", program.input_specs
    names = [each.name for each in getattr(model, "inputs", None) or []]  # a model of an own class has no inputs
    number = len(names) or 1
    if number != len(specs) or not all(spec.dtype.is_floating for spec in specs.values()):
        raise _not_comparable(f"{title} has {number} inputs, and the program has the inputs {', '.join(specs)}")
    rng = np.random.default_rng(0)
    images = {name: rng.standard_normal(spec.shape).astype(np.float32) for name, spec in specs.items()}
    arguments = [images[name] for name in (names if {*names} == images.keys() else images)]
    with _full_precision():
        wanted = expected(model(arguments[0] if number == 1 else arguments))
        found = program(**images)
    wanted, found = ([np.asarray(tf.cast(each, tf.float32)) for each in tf.nest.flatten(y)] for y in (wanted, found))
    shapes, own_shapes = ([[*each.shape] for each in y] for y in (wanted, found))
    if shapes != own_shapes:
        raise _not_comparable(f"{title} returns tensors of the shapes {shapes}, and the program {own_shapes}")
    is_half = any(spec.dtype.size == _HALF_BYTES for spec in specs.values())
    largest, allowed = 0.0, HALF_TOLERANCE if is_half else TOLERANCE
    for place, (one, other) in enumerate(zip(wanted, found, strict=True)):
        size, difference = np.max(np.abs(one), initial=0), np.max(np.abs(one - other), initial=0)
        if not difference <= allowed * size:
            raise CheckpointError(
                f"{title}: the program has its weights, but computes something else: on random inputs, output {place} "
                f"differs by up to {difference:.3g}, but its largest value is {size:.3g}, and {allowed:g} of it is "
                "allowed. No weight was imported. Fix: give the layers here the strides, padding, epsilon and "
                "activation of those in Keras; if the program computes more than the model, pass a function such as "
                f"verify=keras.ops.softmax, {_SKIP}."
            )
        largest = max(largest, float(difference / size) if size else 0.0)
    return largest


def _not_comparable(difference: str) -> ConfigError:
    return ConfigError(
        f"{difference}, so their results cannot be compared. Fix: import the weights into a program with the images of "
        f"the model and its results, {_SKIP}."
    )


@contextlib.contextmanager
def _full_precision() -> Iterator[None]:
    """Turns off TensorFloat-32, with whose 10 bits two GPU kernels can differ more than the tolerance."""
    before = tf.config.experimental.tensor_float_32_execution_enabled()
    tf.config.experimental.enable_tensor_float_32_execution(False)
    try:
        yield
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(before)
