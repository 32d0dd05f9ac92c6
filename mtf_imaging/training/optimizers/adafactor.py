"""Adafactor, which stores second moments as a row and a column and scales steps with the weights."""

import functools
from collections.abc import Callable

from mtf_imaging.engine.compat import mtf
from mtf_imaging.training.optimizers.optimizer import Optimizer


class Adafactor(Optimizer):
    """Adafactor (Shazeer and Stern 2018, arXiv:1804.04235, algorithms 4 and 5).

    For a variable w with the gradient g, it computes in step t = 1, 2, ..., with `b = 1 - t^-decay_exponent`:

    `v = b v + (1 - b) (g^2 + epsilon1);`
    `u = g / sqrt(v); u = u / max(1, rms(u) / clipping_threshold);`
    `m = beta1 m + (1 - beta1) learning_rate max(rms(w), epsilon2) u; w -= m`

    If v is factored, the optimizer stores only `r` and `c`, the means of v over each of the two largest dimensions, and
    approximates v by `r c / mean(r)`. The defaults are the same as in mesh_tensorflow; Hou et al. 2019 use them with
    `StepDecay`. If a layout splits a dimension of w, processors exchange only their sums over it.

    Args:
      learning_rate: a number, or a function of the step; see `schedules`.
      multiply_by_parameter_scale: whether to scale steps with rms(w).
      decay_exponent: exponent of the decay of v; a larger value averages over more steps.
      beta1: the fraction of the momentum m that a step keeps; 0 stores no m.
      clipping_threshold: maximum of rms(u); None for no limit.
      factored: whether to factor v where possible.
      min_dim_size_to_factor: v is factored only if the variable's second largest dimension has at least this size.
      epsilon1: a constant added to g^2.
      epsilon2: minimum scale of a variable.
      clip_norm: the largest norm of the gradient over all variables, None for no limit; see `Optimizer`.
    """

    def __init__(
        self,
        learning_rate: float | Callable = 0.01,
        multiply_by_parameter_scale: bool = True,
        decay_exponent: float = 0.8,
        beta1: float = 0.0,
        clipping_threshold: float | None = 1.0,
        factored: bool = True,
        min_dim_size_to_factor: int = 128,
        epsilon1: float = 1e-30,
        epsilon2: float = 1e-3,
        clip_norm: float | None = None,
    ) -> None:
        super().__init__(learning_rate, clip_norm)
        self._multiply_by_parameter_scale, self._clipping_threshold = multiply_by_parameter_scale, clipping_threshold
        self._decay_exponent, self._beta1 = decay_exponent, beta1
        self._factored, self._min_dim_size_to_factor = factored, min_dim_size_to_factor
        self._epsilon1, self._epsilon2 = epsilon1, epsilon2

    def prepare(self, step: mtf.Tensor) -> None:
        exponent = self._decay_exponent
        kept = mtf.cwise(lambda t: 1 - (t + 1) ** -exponent, [step], name="kept")  # b
        new = mtf.cwise(lambda t: (t + 1) ** -exponent, [step], name="new")  # 1 - b
        scalars = self.rate * (1 - self._beta1) if self._beta1 else self.rate, kept, new
        self._scalars = functools.cache(lambda dtype: [mtf.cast(scalar, dtype) for scalar in scalars])

    def update(self, gradient: mtf.Tensor, variable: mtf.Variable, step: mtf.Tensor) -> None:
        rate, kept, new = self._scalars(gradient.dtype)
        direction = self._direction(gradient, variable, kept, new)
        if self._multiply_by_parameter_scale:
            weights = mtf.cast(variable.value, gradient.dtype)
            rate *= mtf.maximum(_root_mean_square(weights), self._epsilon2)
        if self._clipping_threshold is not None:
            rate /= mtf.maximum(_root_mean_square(direction) / self._clipping_threshold, 1.0)
        change = direction * rate
        if self._beta1:
            momentum = self.slot(variable, "m")
            change += momentum * self._beta1
            mtf.assign(momentum, change)
        mtf.assign_sub(variable, change)

    def slot_name(self, variable: mtf.Variable, name: str) -> str:
        """Returns the name that mesh_tensorflow's own Adafactor gives the slot in its checkpoints."""
        return f"{variable.name}_slot_{name}"

    def _direction(self, gradient: mtf.Tensor, variable: mtf.Variable, kept: mtf.Tensor, new: mtf.Tensor) -> mtf.Tensor:
        """Returns `g / sqrt(v)`, with the v of this step."""
        square = mtf.square(gradient) + self._epsilon1
        pair = self._factored_dims(variable.shape)
        if pair is None:
            return gradient * mtf.rsqrt(self._moving_mean(variable, "v", square, kept, new))
        largest, second = pair
        rows = self._moving_mean(variable, "vr", mtf.reduce_mean(square, reduced_dim=largest), kept, new)
        columns = self._moving_mean(variable, "vc", mtf.reduce_mean(square, reduced_dim=second), kept, new)
        mean = mtf.reduce_mean(rows, reduced_dim=second)
        return gradient * mtf.rsqrt(rows / mean) * mtf.rsqrt(columns)

    def _factored_dims(self, shape: mtf.Shape) -> list[mtf.Dimension] | None:
        """Returns the two largest dimensions, largest first, or None to keep v unfactored; ties keep their order."""
        largest = sorted(shape.dims, key=lambda dim: -dim.size)[:2]
        can_be = len(largest) == 2 and largest[1].size >= self._min_dim_size_to_factor
        return largest if self._factored and can_be else None

    def _moving_mean(
        self, variable: mtf.Variable, name: str, value: mtf.Tensor, kept: mtf.Tensor, new: mtf.Tensor
    ) -> mtf.Tensor:
        """Returns the moving mean of a value, `kept slot + new value`, and assigns it to the slot."""
        slot = self.slot(variable, name, value.shape)
        mean = slot * kept + value * new
        mtf.assign(slot, mean)
        return mean


def _root_mean_square(x: mtf.Tensor) -> mtf.Tensor:
    return mtf.sqrt(mtf.reduce_mean(mtf.square(x)))
