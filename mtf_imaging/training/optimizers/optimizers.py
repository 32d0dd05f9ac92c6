"""SGD with momentum and Adam, as assignments to the variables of a program.

mesh_tensorflow's own are not used: its momentum applies the velocity of the step before, and its Adam corrects no bias.
"""

from collections.abc import Callable

import gin
import tensorflow as tf

from mtf_imaging import ops
from mtf_imaging.compat import mtf
from mtf_imaging.training.optimizers.schedules import as_schedule


class Optimizer:
    """Base class: an optimizer writes `_update`.

    Args:
      learning_rate: a number, or a function of the step (a float64 scalar); see `schedules`.
    """

    def __init__(self, learning_rate):
        self._schedule = as_schedule(learning_rate)

    def learning_rate(self, step):
        """The learning rate of step number `step`, from 0, as a float: to be looked at."""
        return float(self._schedule(tf.constant(step, tf.float64)))

    def apply(self, gradients, variables):
        """Assigns to each variable what its gradient says.

        Args:
          gradients: Tensors of the variables' shapes.
          variables: `mtf.Variable`s; dimensions may be split, and nothing is sent.
        """
        # Scalars in float64: 1 - 0.999^step has few digits left in float32.
        step = ops.step(variables[0].mesh, tf.float64)
        self._begin(step)
        for gradient, variable in zip(gradients, variables):
            self._update(mtf.cast(gradient, variable.master_dtype), variable, step)

    def _begin(self, step):
        """Makes what all updates share."""
        self._rate = mtf.cwise(self._schedule, [step], name="learning_rate")

    def _update(self, gradient, variable, step):
        raise NotImplementedError


def _slot(variable, name):
    """A number for each element of a variable, zero at first, that is not trained itself."""
    return mtf.get_variable(
        variable.mesh,
        f"{variable.name}/{name}",
        variable.shape,
        dtype=variable.master_dtype,
        initializer=tf.zeros_initializer(),
        trainable=False,
    )


@gin.configurable(module="mtf_imaging")
class SGD(Optimizer):
    """`velocity = momentum velocity + gradient; variable -= learning_rate velocity`.

    Args:
      learning_rate: a number, or a function of the step; see `schedules`.
      momentum: the fraction of the velocity that a step keeps, at least 0 and below 1; 0 needs no velocity.
    """

    def __init__(self, learning_rate: float | Callable = 0.01, momentum: float = 0.9):
        super().__init__(learning_rate)
        self._momentum = momentum

    def _update(self, gradient, variable, step):
        velocity = gradient
        if self._momentum:
            slot = _slot(variable, "velocity")
            velocity = slot * self._momentum + gradient
            mtf.assign(slot, velocity)
        mtf.assign_sub(variable, velocity * mtf.cast(self._rate, velocity.dtype))


@gin.configurable(module="mtf_imaging")
class Adam(Optimizer):
    """Adam with bias correction (Kingma and Ba 2015, algorithm 1).

    `m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2;`
    `variable -= learning_rate m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + epsilon)` in step t = 1, 2, ...

    Args:
      learning_rate: a number, or a function of the step; see `schedules`.
      beta1: b1, the fraction of the mean gradient m that a step keeps.
      beta2: b2, the fraction of the mean squared gradient v that a step keeps.
      epsilon: a number added to the square root of v.
    """

    def __init__(
        self,
        learning_rate: float | Callable = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
    ):
        super().__init__(learning_rate)
        self._beta1, self._beta2, self._epsilon = beta1, beta2, epsilon

    def _begin(self, step):
        super()._begin(step)
        self._correction1 = mtf.cwise(lambda t: 1 / (1 - self._beta1 ** (t + 1)), [step], name="correction1")
        self._correction2 = mtf.cwise(lambda t: 1 / (1 - self._beta2 ** (t + 1)), [step], name="correction2")

    def _update(self, gradient, variable, step):
        mean_slot, square_slot = _slot(variable, "mean"), _slot(variable, "square")
        mean = mean_slot * self._beta1 + gradient * (1 - self._beta1)
        square = square_slot * self._beta2 + mtf.square(gradient) * (1 - self._beta2)
        mtf.assign(mean_slot, mean)
        mtf.assign(square_slot, square)
        rate = mtf.cast(self._rate * self._correction1, mean.dtype)
        root = mtf.sqrt(square * mtf.cast(self._correction2, mean.dtype))
        mtf.assign_sub(variable, mean * rate / (root + self._epsilon))
