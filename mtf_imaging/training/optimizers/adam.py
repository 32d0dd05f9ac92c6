"""Adam with bias correction."""

from collections.abc import Callable

import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.parameters import check_value
from mtf_imaging.training.optimizers.optimizer import Optimizer


class Adam(Optimizer):
    """Adam with bias correction (Kingma and Ba 2015, algorithm 1), which mesh_tensorflow's Adam lacks.

    `m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2;`
    `variable -= learning_rate m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + epsilon)` in step t = 1, 2, ...

    With `weight_decay`, a step also subtracts `learning_rate weight_decay variable` from each variable with at least
    two dimensions: kernels, but not biases and norms. This is the decoupled decay of AdamW (Loshchilov and Hutter
    2019).

    Args:
      learning_rate: a number, or a function of the step; see `schedules`.
      beta1: b1, the fraction of the mean gradient m that a step keeps.
      beta2: b2, the fraction of the mean squared gradient v that a step keeps.
      epsilon: a constant added to the square root of the corrected v.
      clip_norm: the largest norm of the gradient over all variables, None for no limit; see `Optimizer`.
      weight_decay: the fraction of each kernel that a step subtracts, times the learning rate; at least 0.

    Raises:
      ConfigError: `weight_decay` is not a number of at least 0, or `clip_norm` is not a positive number.
    """

    def __init__(
        self,
        learning_rate: float | Callable = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        clip_norm: float | None = None,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(learning_rate, clip_norm)
        check_value("Adam.weight_decay", weight_decay, float, least=0)
        self._beta1, self._beta2, self._epsilon, self._weight_decay = beta1, beta2, epsilon, weight_decay

    def prepare(self, step: mtf.Tensor) -> None:
        self._correction1 = mtf.cwise(lambda t: 1 / (1 - self._beta1 ** (t + 1)), [step], name="correction1")
        self._correction2 = mtf.cwise(lambda t: 1 / (1 - self._beta2 ** (t + 1)), [step], name="correction2")

    def update(self, gradient: mtf.Tensor, variable: mtf.Variable, step: mtf.Tensor) -> None:
        mean_slot, square_slot = self.slot(variable, "mean"), self.slot(variable, "square")
        corrections = [self.rate * self._correction1, self._correction2]
        corrections = [mtf.cast(correction, variable.master_dtype) for correction in corrections]

        def update(
            gradient: tf.Tensor, mean: tf.Tensor, square: tf.Tensor, rate: tf.Tensor, correction: tf.Tensor
        ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            mean = mean * self._beta1 + gradient * (1 - self._beta1)
            square = square * self._beta2 + tf.square(gradient) * (1 - self._beta2)
            return mean, square, mean * rate / (tf.sqrt(square * correction) + self._epsilon)

        # One operation per variable is built and compiled faster than one per term.
        mean, square, change = mtf.slicewise(
            update,
            [gradient, mean_slot, square_slot, *corrections],
            output_shape=[variable.shape] * 3,
            output_dtype=[variable.master_dtype] * 3,
            splittable_dims=variable.shape.dims,
            name="adam",
        )
        mtf.assign(mean_slot, mean)
        mtf.assign(square_slot, square)
        if self._weight_decay and len(variable.shape.dims) > 1:
            rate = mtf.cast(self.rate * self._weight_decay, variable.master_dtype)
            change += mtf.cast(variable.value, variable.master_dtype) * rate
        mtf.assign_sub(variable, change)
