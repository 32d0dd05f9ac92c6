"""Learning-rate schedules: functions of the step that accept Python numbers and tensors."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from typing import TypeAlias

import tensorflow as tf

from mtf_imaging.errors import ConfigError
from mtf_imaging.parameters import check_parameters, check_value, parameter

Step: TypeAlias = float | tf.Tensor  # a tensor of any shape


@dataclass(frozen=True)
class StepDecay:
    """Step decay: `initial factor^floor(step / every)`.

    The defaults are the values of Hou et al. 2019.

    >>> StepDecay(1.0, factor=0.5, every=10)(25)
    0.25

    Attributes:
      initial: learning rate of the first steps.
      factor: factor by which the learning rate is multiplied every `every` steps.
      every: number of steps between two changes of the learning rate.
    """

    initial: float = 0.003
    factor: float = 0.3
    every: int = 20_000

    def __post_init__(self) -> None:
        check_parameters(self)

    def __call__(self, step: Step) -> Step:
        return self.initial * self.factor ** (step // self.every)


@dataclass(frozen=True)
class MilestoneDecay:
    """Decay at given steps: `initial factor^(number of milestones up to step)`.

    The reference recipes of RetinaNet and Mask R-CNN use the default factor. `StepDecay` decays at equal intervals.

    >>> [MilestoneDecay(1.0, milestones=(10, 15), factor=0.5)(step) for step in (9, 10, 20)]
    [1.0, 0.5, 0.25]

    Attributes:
      initial: learning rate before the first milestone.
      milestones: the steps at which the learning rate is multiplied by `factor`, in ascending order.
      factor: factor by which each milestone multiplies the learning rate.
    """

    initial: float = 0.08
    milestones: tuple[int, ...] = field(kw_only=True)
    factor: float = 0.1

    def __post_init__(self) -> None:
        check_parameters(self)
        if sorted({*self.milestones}) != [*self.milestones]:
            raise ConfigError(f"MilestoneDecay.milestones = {self.milestones}: the steps must be in ascending order.")

    def __call__(self, step: Step) -> Step:
        rate = self.initial + 0 * step
        for milestone in self.milestones:
            rate = rate * self.factor ** _reached(step, milestone)
        return rate


@dataclass(frozen=True)
class ExponentialDecay:
    """Exponential decay: `initial factor^(step / every)`.

    It decays continuously where `StepDecay` decays in steps.

    >>> ExponentialDecay(1.0, factor=0.25, every=10)(5)
    0.5

    Attributes:
      initial: learning rate of the first step.
      factor: factor by which the learning rate is multiplied over `every` steps.
      every: number of steps over which the learning rate is multiplied by `factor`.
    """

    initial: float = 0.003
    factor: float = 0.3
    every: int = 20_000

    def __post_init__(self) -> None:
        check_parameters(self)

    def __call__(self, step: Step) -> Step:
        return self.initial * self.factor ** (step / self.every)


@dataclass(frozen=True)
class CosineDecay:
    """Cosine decay: `final + (initial - final) (1 + cos(pi step / steps)) / 2`.

    From step `steps` on, the learning rate is `final`. The formula is one period of SGDR (Loshchilov and Hutter 2017,
    arXiv:1608.03983, equation 5).

    >>> CosineDecay(1.0, steps=10)(5)
    0.5

    Attributes:
      initial: learning rate of the first step.
      steps: number of steps until the learning rate is `final`, usually num_steps.
      final: learning rate from step `steps` on.
    """

    initial: float = 0.003
    steps: int = field(kw_only=True)
    final: float = parameter(0.0, least=0)

    def __post_init__(self) -> None:
        check_parameters(self)
        check_value("CosineDecay.final", self.final, float, least=0, most=self.initial)

    def __call__(self, step: Step) -> Step:
        return self.final + (self.initial - self.final) * (1 + _cos(math.pi * _share(step, self.steps))) / 2


@dataclass(frozen=True)
class PolyDecay:
    """Polynomial decay: `initial (1 - step / steps)^power`.

    From step `steps` on, the learning rate is 0. nnU-Net uses the default power (Isensee et al. 2021,
    `PolyLRScheduler`).

    >>> PolyDecay(1.0, steps=10, power=2)(5)
    0.25

    Attributes:
      initial: learning rate of the first step.
      steps: number of steps until the learning rate is 0, usually num_steps.
      power: exponent of the fraction of remaining steps; 1 is a linear decay.
    """

    initial: float = 0.01
    steps: int = field(kw_only=True)
    power: float = 0.9

    def __post_init__(self) -> None:
        check_parameters(self)

    def __call__(self, step: Step) -> Step:
        return self.initial * (1 - _share(step, self.steps)) ** self.power


@dataclass(frozen=True)
class WarmUp:
    """Linear warm-up of any schedule: `schedule(step) min((step + 1) / steps, 1)`.

    This is the gradual warm-up of Goyal et al. 2017 (arXiv:1706.02677). The learning rate is positive in the first
    step, and equal to the rate of the schedule from step `steps - 1` on. The schedule counts all steps, including the
    steps of the warm-up.

    >>> [WarmUp(1.0, steps=4)(step) for step in (0, 1, 3, 9)]
    [0.25, 0.5, 1.0, 1.0]

    Attributes:
      schedule: a learning rate, or a function of the step.
      steps: number of warm-up steps.
    """

    schedule: float | Callable
    steps: int = 1000

    def __post_init__(self) -> None:
        check_parameters(self)

    def __call__(self, step: Step) -> Step:
        return as_schedule(self.schedule)(step) * _share(step + 1, self.steps)


def as_schedule(learning_rate: float | Callable) -> Callable:
    """Returns a schedule unchanged; converts a number to a schedule that always returns it.

    Args:
      learning_rate: a number, or a function of the step.

    Raises:
      ConfigError: `learning_rate` is neither a number nor a function.
    """
    if isinstance(learning_rate, type) or not (callable(learning_rate) or isinstance(learning_rate, Real)):
        raise ConfigError(
            f"learning rate {learning_rate!r}: it must be a number, or a function of the step such as CosineDecay(...)."
        )
    return learning_rate if callable(learning_rate) else _Constant(float(learning_rate))


@dataclass(frozen=True)
class _Constant:
    """A constant learning rate; unlike a lambda, it can be pickled."""

    rate: float

    def __call__(self, step: Step) -> Step:
        return self.rate + 0 * step


def _share(step: Step, steps: int) -> Step:
    """Returns `min(step / steps, 1)`."""
    share = step / steps
    return tf.minimum(share, 1.0) if tf.is_tensor(share) else min(share, 1.0)


def _reached(step: Step, milestone: int) -> Step:
    """Returns 1 from a milestone on, and 0 before it."""
    if isinstance(step, tf.Tensor):
        return tf.cast(step >= milestone, step.dtype)
    return float(step >= milestone)


def _cos(x: Step) -> Step:
    return tf.cos(x) if tf.is_tensor(x) else math.cos(x)
