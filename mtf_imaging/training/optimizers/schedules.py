"""Learning rates as functions of the step: plain arithmetic that works on Python numbers and tensors alike."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, TypeAlias

import tensorflow as tf

from mtf_imaging.errors import ConfigError

Step: TypeAlias = float | tf.Tensor  # of a tensor, any shape


@dataclass(frozen=True)
class StepDecay:
    """`initial factor^floor(step / every)`; the defaults are those of Hou et al. 2019.

    >>> StepDecay(1.0, factor=0.5, every=10)(25)
    0.25

    Attributes:
      initial: learning rate of the first steps.
      factor: the number that multiplies the learning rate after every `every` steps.
      every: number of steps with the same learning rate.
    """

    initial: float = 0.003
    factor: float = 0.3
    every: int = 20_000

    def __post_init__(self) -> None:
        _check_every(self)

    def __call__(self, step: Step) -> Step:
        return self.initial * self.factor ** (step // self.every)


@dataclass(frozen=True)
class ExponentialDecay:
    """`initial factor^(step / every)`: `StepDecay` without the jumps.

    >>> ExponentialDecay(1.0, factor=0.25, every=10)(5)
    0.5

    Attributes:
      initial: learning rate of the first step.
      factor: the number that multiplies the learning rate over `every` steps, gradually.
      every: number of steps after which the learning rate is multiplied by `factor`.
    """

    initial: float = 0.003
    factor: float = 0.3
    every: int = 20_000

    def __post_init__(self) -> None:
        _check_every(self)

    def __call__(self, step: Step) -> Step:
        return self.initial * self.factor ** (step / self.every)


@dataclass(frozen=True)
class CosineDecay:
    """`final + (initial - final) (1 + cos(pi step / steps)) / 2`; `final` from step number `steps` on.

    That is one period of SGDR (Loshchilov and Hutter 2017, arXiv:1608.03983, equation 5).

    >>> CosineDecay(1.0, steps=10)(5)
    0.5

    Attributes:
      initial: learning rate of the first step.
      steps: number of steps until `final`, usually num_steps.
      final: learning rate of the last step and all later ones.
    """

    initial: float = 0.003
    steps: int = field(kw_only=True)
    final: float = 0.0

    def __post_init__(self) -> None:
        _check_initial(self)
        _check(self, "steps", lambda steps: steps >= 1, "a number of steps from 1 up, as num_steps")
        _check(self, "final", lambda final: 0 <= final <= self.initial, f"from 0 to the initial rate, {self.initial}")

    def __call__(self, step: Step) -> Step:
        return self.final + (self.initial - self.final) * (1 + _cos(math.pi * _share(step, self.steps))) / 2


@dataclass(frozen=True)
class PolyDecay:
    """`initial (1 - step / steps)^power`; 0 from step number `steps` on.

    The power of nnU-Net (Isensee et al. 2021, its `PolyLRScheduler`) is the default.

    >>> PolyDecay(1.0, steps=10, power=2)(5)
    0.25

    Attributes:
      initial: learning rate of the first step.
      steps: number of steps until 0, usually num_steps.
      power: exponent of the fraction of remaining steps; 1 decays linearly.
    """

    initial: float = 0.01
    steps: int = field(kw_only=True)
    power: float = 0.9

    def __post_init__(self) -> None:
        _check_initial(self)
        _check(self, "steps", lambda steps: steps >= 1, "a number of steps from 1 up, as num_steps")
        _check(self, "power", lambda power: 0 < power < math.inf, "a number above 0")

    def __call__(self, step: Step) -> Step:
        return self.initial * (1 - _share(step, self.steps)) ** self.power


@dataclass(frozen=True)
class WarmUp:
    """`schedule(step) min((step + 1) / steps, 1)`: a linear ramp over the first steps of any schedule.

    That is the gradual warm-up of Goyal et al. 2017 (arXiv:1706.02677). The first step has a rate above 0. From step
    number `steps - 1` on, the rate is the schedule's. The schedule counts all steps, including those of the ramp.

    >>> [WarmUp(1.0, steps=4)(step) for step in (0, 1, 3, 9)]
    [0.25, 0.5, 1.0, 1.0]

    Attributes:
      schedule: a learning rate, or a function of the step.
      steps: number of steps of the ramp.
    """

    schedule: Callable | float
    steps: int = 1000

    def __post_init__(self) -> None:
        _check(self, "steps", lambda steps: steps >= 1, "a number of steps from 1 up")
        if not (callable(self.schedule) or _is_number(self.schedule)):
            raise ConfigError(
                f"WarmUp.schedule = {self.schedule!r}: it must be a learning rate, or a schedule such as CosineDecay."
            )

    def __call__(self, step: Step) -> Step:
        return as_schedule(self.schedule)(step) * _share(step + 1, self.steps)


def as_schedule(learning_rate: float | Callable) -> Callable:
    """Returns a schedule as it is, and a number as a schedule that always returns that number.

    Args:
      learning_rate: a number, or a function of the step.

    Raises:
      ConfigError: `learning_rate` is neither.
    """
    if isinstance(learning_rate, type):
        name = learning_rate.__name__
        raise ConfigError(f"learning rate {name}: it is a class. Fix: give an object of it, {name}(...).")
    if callable(learning_rate):
        return learning_rate
    if not _is_number(learning_rate):
        raise ConfigError(
            f"learning rate {learning_rate!r}: it must be a number, or a function of the step such as CosineDecay."
        )
    return _Constant(learning_rate)


@dataclass(frozen=True)
class _Constant:
    """A schedule that always returns one rate; unlike a lambda, it can be pickled."""

    rate: float

    def __call__(self, step: Step) -> Step:
        return self.rate + 0 * step


def _share(step: Step, steps: int) -> Step:
    """Returns `min(step / steps, 1)`."""
    share = step / steps
    return tf.minimum(share, 1.0) if tf.is_tensor(share) else min(share, 1.0)


def _cos(x: Step) -> Step:
    return tf.cos(x) if tf.is_tensor(x) else math.cos(x)


def _check_every(schedule: StepDecay | ExponentialDecay) -> None:
    if schedule.every < 1:
        raise ConfigError(f"{type(schedule).__name__}.every = {schedule.every}: it must be at least 1 step.")


def _check_initial(schedule: CosineDecay | PolyDecay) -> None:
    _check(schedule, "initial", lambda rate: 0 < rate < math.inf, "a learning rate above 0")


def _check(schedule: object, name: str, is_right: Callable[[float], bool], what: str) -> None:
    value = getattr(schedule, name)
    if not (_is_number(value) and is_right(value)):
        raise ConfigError(f"{type(schedule).__name__}.{name} = {value!r}: it must be {what}.")


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
