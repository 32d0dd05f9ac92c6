"""The base class of optimizers: derive from it to write your own."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from mtf_imaging import ops
from mtf_imaging.compat import mtf
from mtf_imaging.errors import ConfigError
from mtf_imaging.training.optimizers.schedules import as_schedule


class Optimizer:
    """Base class of optimizers: a subclass overrides `update`, and `prepare` if the updates share something.

    Neither has to call the method of the base class.

    Args:
      learning_rate: a number, or a function of the step; see `schedules`.

    Attributes:
      rate: learning rate of the step as Tensor[], float64; set before `prepare` and `update` are called.
    """

    rate: mtf.Tensor

    def __init__(self, learning_rate: float | Callable) -> None:
        self._schedule = as_schedule(learning_rate)

    def learning_rate(self, step: int) -> float:
        """Returns the learning rate of step number `step`, counted from 0."""
        return float(self._schedule(tf.constant(step, tf.float64)))

    def apply(self, gradients: Sequence[mtf.Tensor], variables: Sequence[mtf.Variable]) -> None:
        """Updates all variables once.

        Args:
          gradients: a Tensor for each variable, of its shape.
          variables: the variables; a layout may split their dimensions.
        """
        own = dict(vars(self))
        try:
            # Scalars in float64: 1 - 0.999^step has few digits left in float32.
            step = ops.step(variables[0].mesh, tf.float64)
            self.rate = mtf.cwise(self._schedule, [step], name="learning_rate")
            self.prepare(step)
            for gradient, variable in zip(gradients, variables, strict=True):
                self.update(mtf.cast(gradient, variable.master_dtype), variable, step)
        finally:  # no tensor of this graph stays: the optimizer serves other graphs, and can be pickled
            vars(self).clear()
            vars(self).update(own)

    def prepare(self, step: mtf.Tensor) -> None:
        """Computes what the updates of all variables share, before the first of them.

        Args:
          step: number of steps before this one: Tensor[], float64.
        """

    def update(self, gradient: mtf.Tensor, variable: mtf.Variable, step: mtf.Tensor) -> None:
        """Updates one variable: assigns to it, and to its slots.

        Args:
          gradient: gradient of the loss, in `variable.master_dtype`.
          variable: the variable; `variable.value` is its Tensor, `mtf.assign_sub(variable, change)` updates it.
          step: number of steps before this one: Tensor[], float64.
        """
        name = type(self).__name__
        raise ConfigError(f"{name} has no method update. Fix: write {name}.update(self, gradient, variable, step).")

    def slot(self, variable: mtf.Variable, name: str, shape: mtf.Shape | None = None) -> mtf.Tensor:
        """Returns a tensor that the optimizer keeps for a variable from step to step, and that checkpoints contain.

        It starts at zero, is not trained, and is split as the variable is. `mtf.assign(slot, value)` updates it.

        Args:
          variable: the variable.
          name: name of the slot, unique among the slots of the variable.
          shape: shape of the slot; default: that of the variable.

        Returns:
          The value before this step, in `variable.master_dtype`.
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
