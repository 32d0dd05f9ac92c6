"""Stochastic gradient descent with momentum."""

from collections.abc import Callable

from mtf_imaging.compat import mtf
from mtf_imaging.training.optimizers.optimizer import Optimizer


class SGD(Optimizer):
    """SGD with momentum: `velocity = momentum velocity + gradient; variable -= learning_rate velocity`.

    mesh_tensorflow's momentum optimizer instead applies the velocity of the previous step.

    Args:
      learning_rate: a number, or a function of the step; see `schedules`.
      momentum: the fraction of the velocity that a step keeps, at least 0 and below 1; 0 stores no velocity.
    """

    def __init__(self, learning_rate: float | Callable = 0.01, momentum: float = 0.9) -> None:
        super().__init__(learning_rate)
        self._momentum = momentum

    def update(self, gradient: mtf.Tensor, variable: mtf.Variable, step: mtf.Tensor) -> None:
        velocity = gradient
        if self._momentum:
            slot = self.slot(variable, "velocity")
            velocity = slot * self._momentum + gradient
            mtf.assign(slot, velocity)
        mtf.assign_sub(variable, velocity * mtf.cast(self.rate, velocity.dtype))
