"""Adafactor (Shazeer and Stern 2018): mesh_tensorflow's, on the variables and the step of a program."""

import types
from collections.abc import Callable

import gin

from mtf_imaging.compat import mtf
from mtf_imaging.training.optimizers.optimizers import Optimizer


@gin.configurable(module="mtf_imaging")
class Adafactor(Optimizer):
    """Adafactor: second moments of a matrix in as many numbers as a row and a column of it, and steps in proportion to
    the weights. The defaults are mesh_tensorflow's, which Hou et al. 2019 use with `StepDecay`.

    In step t = 1, 2, ..., with `b = 1 - t^-decay_exponent`, for a variable w and its gradient g:

    `v = b v + (1 - b) (g^2 + epsilon1);`
    `u = g / sqrt(v); u = u / max(1, rms(u) / clipping_threshold);`
    `m = beta1 m + (1 - beta1) learning_rate max(rms(w), epsilon2) u; w -= m`

    Factored, only means of v over each of the variable's two largest dimensions are kept, `r` and `c`, and `v` is
    `r c / mean(r)`. Sums over a dimension of a weight that is split are exchanged; nothing else is sent.

    Args:
      learning_rate: a number, or a function of the step.
      multiply_by_parameter_scale: whether steps are in proportion to rms(w), or, if not, to 1.
      decay_exponent: how fast the memory of v grows.
      beta1: of the momentum m; 0 for none, which keeps no m.
      clipping_threshold: of rms(u), or None.
      factored: whether v is factored where it can be.
      min_dim_size_to_factor: least size of the second largest dimension of a variable that is.
      epsilon1: added to g^2.
      epsilon2: least scale of a variable.
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
    ):
        super().__init__(learning_rate)
        self._decay_exponent, self._beta1 = decay_exponent, beta1
        self._settings = {
            "multiply_by_parameter_scale": multiply_by_parameter_scale,
            "clipping_threshold": clipping_threshold,
            "factored": factored,
            "min_dim_size_to_factor": min_dim_size_to_factor,
            "epsilon1": epsilon1,
            "epsilon2": epsilon2,
        }

    def _begin(self, step):
        super()._begin(step)
        self._decay = mtf.cwise(lambda t: 1 - (t + 1) ** -self._decay_exponent, [step], name="decay")

    def _update(self, gradient, variable, step):
        dtype = variable.master_dtype
        engine = mtf.optimize.AdafactorOptimizer(
            learning_rate=mtf.cast(self._rate, dtype),
            decay_rate=mtf.cast(self._decay, dtype),
            beta1=dtype.as_numpy_dtype(self._beta1),  # upstream makes a constant of it, of its own dtype
            **self._settings,
        )
        _apply_grad(dtype)(engine, gradient, variable)


def _apply_grad(dtype):
    """Upstream's `apply_grad`, which computes in float32 and keeps float32, in `dtype` instead.

    It is the same code, with two of the functions that it finds in `mtf` replaced.
    """
    upstream = mtf.optimize.AdafactorOptimizer.apply_grad
    functions = vars(upstream.__globals__["mtf"]) | {
        "to_float": lambda x: mtf.cast(x, dtype),
        "get_variable": lambda *args, **kwargs: mtf.get_variable(*args, dtype=dtype, **kwargs),
    }
    return types.FunctionType(
        upstream.__code__, upstream.__globals__ | {"mtf": types.SimpleNamespace(**functions)}, upstream.__name__
    )
