"""Exponential moving averages of the weights, which predictions use instead of the last weights."""

import contextlib
import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from mtf_imaging.engine import ops
from mtf_imaging.engine.compat import assigned_variables, mtf
from mtf_imaging.engine.program.program import Program
from mtf_imaging.errors import ConfigError
from mtf_imaging.training.optimizers import Optimizer

AVERAGE = "average"
GRADIENT_NORM = "gradient_norm"
# The new value of a variable, given its old value and the operand of each function that assigns to it.
_RESULTS: dict[Callable[..., Any], Callable[[mtf.Tensor, mtf.Tensor], mtf.Tensor]] = {
    mtf.assign_slice: lambda value, operand: operand,
    mtf.assign_add_slice: operator.add,
    mtf.assign_sub_slice: operator.sub,
}


def average_name(name: str) -> str:
    """Returns the name of a variable's average in programs and checkpoints."""
    return f"{name}/{AVERAGE}"


def averages_in(names: Collection[str]) -> dict[str, str]:
    """Returns {variable: its average} for the variables that have an average among the names."""
    return {name: average_name(name) for name in names if average_name(name) in names}


def apply_update(
    optimizer: Optimizer,
    gradients: Sequence[mtf.Tensor],
    variables: Sequence[mtf.Variable],
    average_decay: float | None = None,
) -> dict[str, mtf.Tensor]:
    """Updates variables once, and then their averages.

    After step t = 1, 2, ..., `average = d average + (1 - d) value` with `d = min(average_decay, (1 + t) / (10 + t))`,
    as in `tf.train.ExponentialMovingAverage` with `num_updates=t`. An average starts at the initial value.

    Args:
      optimizer: the optimizer.
      gradients: one Tensor for each variable.
      variables: the variables.
      average_decay: the largest decay d, or None for no averages.

    Returns:
      {GRADIENT_NORM: norm of the gradient before clipping, Tensor[]}, or {} if the optimizer does not clip.

    Raises:
      ConfigError: an average would be inexact, or the optimizer has a slot with its name.
    """
    norm = optimizer.apply(gradients, variables)
    norms = {} if norm is None else {GRADIENT_NORM: norm}
    if average_decay is None:
        return norms
    # Also those of the network, such as a spectral norm that divides its kernel.
    updates = [op for op in variables[0].graph.operations if isinstance(op, mtf.Assign)]
    step = ops.step(variables[0].mesh, tf.float64)
    decay = mtf.cwise(
        lambda t: tf.minimum(tf.constant(average_decay, t.dtype), (2 + t) / (11 + t)), [step], name="decay"
    )
    for variable in variables:
        _update_average(variable, _new_value(variable, updates), decay, step)
    return norms


def _new_value(variable: mtf.Variable, updates: Sequence[mtf.Assign]) -> mtf.Tensor:
    """Returns the value of a variable after some assignments."""
    value = variable.value
    for op in updates:
        for assigned, operand in zip(assigned_variables(op), op.inputs, strict=True):
            if assigned is not variable:
                continue
            if op.assign_fn not in _RESULTS or variable.activation_dtype != variable.master_dtype:
                raise ConfigError(
                    f"average_decay: the average of variable '{variable.name}' cannot be computed. Fix: create the "
                    "variable with one dtype, and let the optimizer update it with mtf.assign, mtf.assign_add or "
                    "mtf.assign_sub.",
                    ["average_decay"],
                )
            value = _RESULTS[op.assign_fn](value, mtf.cast(operand, variable.master_dtype))
    return value


def _update_average(variable: mtf.Variable, value: mtf.Tensor, decay: mtf.Tensor, step: mtf.Tensor) -> None:
    name = average_name(variable.name)
    if name in variable.graph.name_to_variable:
        raise ConfigError(
            f"average_decay: the optimizer has a slot '{name}', which is the name of the average of this variable. "
            f"Fix: rename the slot '{AVERAGE}' of the optimizer.",
            ["average_decay"],
        )
    dtype, zeros = variable.master_dtype, tf.zeros_initializer()
    average = mtf.get_variable(variable.mesh, name, variable.shape, dtype=dtype, initializer=zeros, trainable=False)

    def update(average: tf.Tensor, value: tf.Tensor, first: tf.Tensor, decay: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        average = tf.where(step == 0, first, average)
        decay = tf.cast(decay, average.dtype)
        return decay * average + (1 - decay) * value

    inputs = [average, value, variable.value, decay, step]
    dims = variable.shape.dims
    mtf.assign(
        average,
        mtf.slicewise(update, inputs, variable.shape, output_dtype=dtype, splittable_dims=dims, name=AVERAGE),
    )


@contextlib.contextmanager
def averaged(program: Program) -> Iterator[None]:
    """Gives the variables of a training program the values of their averages within a `with` block, if it has any."""
    variables = program.variables
    averages = averages_in(variables)
    values = {name: variables[name].numpy() for name in averages}
    try:
        use_averages(variables, {name: variables[average].numpy() for name, average in averages.items()})
        yield
    finally:
        use_averages(variables, values)


def use_averages(variables: Mapping[str, tf.Variable], values: Mapping[str, object]) -> None:
    """Assigns values to variables, by name."""
    for name, value in values.items():
        variables[name].assign(value)
