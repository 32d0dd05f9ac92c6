"""The base class of optimizers."""

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any, Self

import tensorflow as tf

from mtf_imaging.engine import ops
from mtf_imaging.engine.compat import mtf
from mtf_imaging.errors import ConfigError
from mtf_imaging.parameters import check_value
from mtf_imaging.training.optimizers.schedules import as_schedule

FACTOR = "learning_rate_factor"  # a variable of the program, by which a callback scales the learning rate


class Optimizer:
    """Base class of optimizers; derive from it to write your own.

    A subclass overrides `update`, and `prepare` if the updates share values. Neither method has to call the method of
    the base class.

    Args:
      learning_rate: a number, or a function of the step; see `schedules`.
      clip_norm: the largest norm of the gradient, over all variables together. A longer gradient is multiplied by
        `clip_norm / norm` (Pascanu et al. 2013, algorithm 1). None leaves gradients as they are.

    Raises:
      ConfigError: `clip_norm` is not a positive number.

    Attributes:
      rate: learning rate of the step, Tensor[] of float64; set before `prepare` and `update` are called.
      factor: the factor by which callbacks scale the learning rate; None if they do not.
    """

    rate: mtf.Tensor
    factor: float | None = None

    def __init__(self, learning_rate: float | Callable, clip_norm: float | None = None) -> None:
        self._schedule = as_schedule(learning_rate)
        check_value(f"{type(self).__name__}.clip_norm", clip_norm, float | None)
        self._clip_norm = clip_norm

    def learning_rate(self, step: int) -> float:
        """Returns the learning rate of step number `step`, counted from 0."""
        return float(self._schedule(tf.constant(step, tf.float64))) * (1.0 if self.factor is None else self.factor)

    def with_factor(self) -> Self:
        """Returns a copy whose learning rate is multiplied by the variable `FACTOR` of the program."""
        own = copy.copy(self)
        own.factor = 1.0
        return own

    def apply(self, gradients: Sequence[mtf.Tensor], variables: Sequence[mtf.Variable]) -> mtf.Tensor | None:
        """Updates all variables once.

        Args:
          gradients: one Tensor for each variable, with the variable's shape.
          variables: the variables; a layout may split their dimensions.

        Returns:
          The norm of the gradient before clipping, Tensor[] of float64; None without `clip_norm`, which needs no norm.
        """
        own, norm = dict(vars(self)), None
        try:
            # Scalars are float64, because 1 - 0.999^step loses most of its digits in float32.
            step = ops.step(variables[0].mesh, tf.float64)
            self.rate = mtf.cwise(self._schedule, [step], name="learning_rate")
            if self.factor is not None:
                initial: dict[str, Any] = {"initializer": tf.ones_initializer(), "trainable": False}
                self.rate *= mtf.get_variable(step.mesh, FACTOR, mtf.Shape([]), dtype=tf.float64, **initial)
            self.prepare(step)
            gradients = [mtf.cast(gradient, v.master_dtype) for gradient, v in zip(gradients, variables, strict=True)]
            if self._clip_norm is not None:
                gradients, norm = _clipped(gradients, self._clip_norm)
            for gradient, variable in zip(gradients, variables, strict=True):
                self.update(gradient, variable, step)
            return norm
        finally:  # drop the tensors of this graph, so that the optimizer can be pickled and used with other graphs
            vars(self).clear()
            vars(self).update(own)

    def prepare(self, step: mtf.Tensor) -> None:
        """Computes the values that the updates of all variables share; called before the first update.

        Args:
          step: number of steps before this one, Tensor[] of float64.
        """

    def update(self, gradient: mtf.Tensor, variable: mtf.Variable, step: mtf.Tensor) -> None:
        """Updates one variable and its slots.

        Args:
          gradient: gradient of the loss, in `variable.master_dtype`.
          variable: the variable; `variable.value` is its Tensor, and `mtf.assign_sub(variable, change)` updates it.
          step: number of steps before this one, Tensor[] of float64.
        """
        name = type(self).__name__
        raise ConfigError(f"{name} has no method update. Fix: define {name}.update(self, gradient, variable, step).")

    def slot(self, variable: mtf.Variable, name: str, shape: mtf.Shape | None = None) -> mtf.Tensor:
        """Returns a slot: a tensor that the optimizer keeps for a variable between steps and in checkpoints.

        A slot is zero at first, is not trainable, and is split like the variable. `mtf.assign(slot, value)` updates it.

        Args:
          variable: the variable.
          name: name of the slot, unique among the slots of the variable.
          shape: shape of the slot; defaults to the shape of the variable.

        Returns:
          The value of the slot before this step, in `variable.master_dtype`.
        """
        return mtf.get_variable(
            variable.mesh,
            self.slot_name(variable, name),
            variable.shape if shape is None else shape,
            dtype=variable.master_dtype,
            initializer=tf.zeros_initializer(),
            trainable=False,
        )

    def slot_name(self, variable: mtf.Variable, name: str) -> str:
        """Returns the name of a slot in the program and its checkpoints: `VARIABLE/NAME`."""
        return f"{variable.name}/{name}"


def _clipped(gradients: Sequence[mtf.Tensor], clip_norm: float) -> tuple[list[mtf.Tensor], mtf.Tensor]:
    """Returns gradients whose common norm, over all slices of all variables, is at most `clip_norm`, and their norm.

    Gradients are divided by a power of 2 near their largest absolute value, because squares of more than 1.8e19 are
    infinite in float32. This is exact, so the results are the same as without it.
    """
    peaks = [mtf.cast(mtf.reduce_max(mtf.abs(gradient)), tf.float64) for gradient in gradients]
    scale = mtf.cwise(_power_of_2, [functools.reduce(mtf.maximum, peaks)], name="gradient_scale")
    scaled = [gradient / mtf.cast(scale, gradient.dtype) for gradient in gradients]
    squares = [mtf.cast(mtf.reduce_sum(mtf.square(gradient)), tf.float64) for gradient in scaled]
    norm = mtf.sqrt(mtf.add_n(squares)) * scale
    # The larger of both in the denominator, so that a gradient of 0 stays 0.
    factor = clip_norm / mtf.maximum(norm, clip_norm) * scale
    return [gradient * mtf.cast(factor, gradient.dtype) for gradient in scaled], norm


def _power_of_2(x: tf.Tensor) -> tf.Tensor:
    """Returns the largest power of 2 that is at most `x`, within 2^-126 to 2^126: float32 represents the inverse."""
    exponent = tf.bitwise.bitwise_and(tf.bitcast(x, tf.int64), tf.constant(0x7FF << 52, tf.int64))
    return tf.clip_by_value(tf.bitcast(exponent, tf.float64), 2.0**-126, 2.0**126)
