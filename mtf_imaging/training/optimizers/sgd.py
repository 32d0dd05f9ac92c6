"""Stochastic gradient descent with momentum."""

from collections.abc import Callable

from mtf_imaging.engine.compat import mtf
from mtf_imaging.parameters import check_value
from mtf_imaging.training.optimizers.optimizer import Optimizer


class SGD(Optimizer):
    """SGD with momentum: `velocity = momentum velocity + gradient; variable -= learning_rate velocity`.

    With `nesterov`, `variable -= learning_rate (gradient + momentum velocity)` with the new velocity: Nesterov's
    accelerated gradient as in Sutskever et al. 2013 ("On the importance of initialization and momentum in deep
    learning"), in the form of `tf.compat.v1.train.MomentumOptimizer(use_nesterov=True)`. `tf.keras.optimizers.SGD`
    multiplies the gradients by the learning rate before it adds them to the velocity, so the two are equivalent only
    while the learning rate is constant.

    With `weight_decay`, `gradient + weight_decay variable` replaces the gradient of each variable with at least two
    dimensions: kernels, but not biases and norms. This corresponds to a term `weight_decay / 2 sum(variable^2)` in the
    loss (Krogh and Hertz 1992), which the reported loss does not include. The decay passes through the velocity and the
    learning rate, in contrast to the decoupled decay of AdamW.

    mesh_tensorflow's momentum optimizer instead applies the velocity of the previous step.

    Args:
      learning_rate: a number, or a function of the step; see `schedules`.
      momentum: the fraction of the velocity that a step keeps, at least 0 and below 1; 0 stores no velocity.
      nesterov: whether to use Nesterov momentum, which adds the gradient to the next step along the velocity.
      weight_decay: the fraction of each kernel that is added to its gradient, at least 0.
      clip_norm: the largest norm of the gradient over all variables, None for no limit; see `Optimizer`.

    Raises:
      ConfigError: `weight_decay` is not a number of at least 0, or `clip_norm` is not a positive number.
    """

    def __init__(
        self,
        learning_rate: float | Callable = 0.01,
        momentum: float = 0.9,
        nesterov: bool = False,
        weight_decay: float = 0.0,
        clip_norm: float | None = None,
    ) -> None:
        super().__init__(learning_rate, clip_norm)
        check_value("SGD.weight_decay", weight_decay, float, least=0)
        self._momentum, self._nesterov, self._weight_decay = momentum, nesterov, weight_decay

    def update(self, gradient: mtf.Tensor, variable: mtf.Variable, step: mtf.Tensor) -> None:
        if self._weight_decay and len(variable.shape.dims) > 1:
            gradient += mtf.cast(variable.value, gradient.dtype) * self._weight_decay
        change = gradient
        if self._momentum:
            slot = self.slot(variable, "velocity")
            velocity = slot * self._momentum + gradient
            mtf.assign(slot, velocity)
            change = gradient + velocity * self._momentum if self._nesterov else velocity
        mtf.assign_sub(variable, change * mtf.cast(self.rate, change.dtype))
