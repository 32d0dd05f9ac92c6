"""Adam with bias correction."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from mtf_imaging.compat import mtf
from mtf_imaging.meshes.local import first_slice
from mtf_imaging.training.optimizers.optimizer import Optimizer


class _Update(mtf.Operation):
    """The new mean gradient, the new mean squared gradient, and the change of a variable.

    One operation per variable is built and compiled faster than one per term.
    """

    def __init__(
        self,
        gradient: mtf.Tensor,
        mean: mtf.Tensor,
        square: mtf.Tensor,
        corrections: Sequence[mtf.Tensor],
        coefficients: tuple[float, float, float],
    ) -> None:
        super().__init__([gradient, mean, square, *corrections], name="adam")
        self._coefficients = coefficients
        self._outputs = [mtf.Tensor(self, mean.shape, mean.dtype, index=i) for i in range(3)]

    def lower(self, lowering: mtf.Lowering) -> None:
        inputs = [lowering.tensors[x].to_laid_out_tensor() for x in self.inputs]
        for output, value in zip(self.outputs, lowering.mesh_impl(self).map_stacks(self._local, *inputs), strict=True):
            lowering.set_tensor_lowering(output, value)

    def _local(
        self, gradient: tf.Tensor, mean: tf.Tensor, square: tf.Tensor, rate: tf.Tensor, correction: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        beta1, beta2, epsilon = self._coefficients
        mean = mean * beta1 + gradient * (1 - beta1)
        square = square * beta2 + tf.square(gradient) * (1 - beta2)
        root = tf.sqrt(square * first_slice(correction)) + epsilon
        return mean, square, mean * first_slice(rate) / root


class Adam(Optimizer):
    """Adam with bias correction (Kingma and Ba 2015, algorithm 1), which mesh_tensorflow's Adam lacks.

    `m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2;`
    `variable -= learning_rate m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + epsilon)` in step t = 1, 2, ...

    Args:
      learning_rate: a number, or a function of the step; see `schedules`.
      beta1: b1, the fraction of the mean gradient m that a step keeps.
      beta2: b2, the fraction of the mean squared gradient v that a step keeps.
      epsilon: a constant added to the square root of the corrected v.
      clip_norm: the largest norm of the gradient over all variables, None for no limit; see `Optimizer`.
    """

    def __init__(
        self,
        learning_rate: float | Callable = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        clip_norm: float | None = None,
    ) -> None:
        super().__init__(learning_rate, clip_norm)
        self._beta1, self._beta2, self._epsilon = beta1, beta2, epsilon

    def prepare(self, step: mtf.Tensor) -> None:
        self._correction1 = mtf.cwise(lambda t: 1 / (1 - self._beta1 ** (t + 1)), [step], name="correction1")
        self._correction2 = mtf.cwise(lambda t: 1 / (1 - self._beta2 ** (t + 1)), [step], name="correction2")

    def update(self, gradient: mtf.Tensor, variable: mtf.Variable, step: mtf.Tensor) -> None:
        mean_slot, square_slot = self.slot(variable, "mean"), self.slot(variable, "square")
        corrections = [self.rate * self._correction1, self._correction2]
        corrections = [mtf.cast(correction, variable.master_dtype) for correction in corrections]

        coefficients = self._beta1, self._beta2, self._epsilon
        mean, square, change = _Update(gradient, mean_slot, square_slot, corrections, coefficients).outputs
        mtf.assign(mean_slot, mean)
        mtf.assign(square_slot, square)
        mtf.assign_sub(variable, change)
