"""Learning-rate schedules: functions of the step that accept Python numbers and tensors."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, TypeAlias

import tensorflow as tf

from mtf_imaging.errors import ConfigError

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
        _check_every(self)

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
        _check_initial(self)
        _check(self, "factor", lambda factor: 0 < factor < math.inf, "a positive number")
        milestones = self.milestones
        is_right = isinstance(milestones, tuple | list) and milestones
        if not (is_right and all(map(_is_count, milestones)) and sorted({*milestones}) == [*milestones]):
            raise ConfigError(
                f"MilestoneDecay.milestones = {milestones!r}: they must be numbers of steps, at least 1 and in "
                "ascending order. Fix: use a tuple such as (15000, 20000)."
            )

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
        _check_every(self)

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
    final: float = 0.0

    def __post_init__(self) -> None:
        _check_initial(self)
        _check(self, "steps", lambda steps: steps >= 1, "a positive number of steps, usually num_steps")
        _check(
            self, "final", lambda final: 0 <= final <= self.initial, f"between 0 and the initial rate, {self.initial}"
        )

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
        _check_initial(self)
        _check(self, "steps", lambda steps: steps >= 1, "a positive number of steps, usually num_steps")
        _check(self, "power", lambda power: 0 < power < math.inf, "a positive number")

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

    schedule: Callable | float
    steps: int = 1000

    def __post_init__(self) -> None:
        _check(self, "steps", lambda steps: steps >= 1, "a positive number of steps")
        if not (callable(self.schedule) or _is_number(self.schedule)):
            raise ConfigError(
                f"WarmUp.schedule = {self.schedule!r}: it must be a learning rate, or a schedule such as CosineDecay."
            )

    def __call__(self, step: Step) -> Step:
        return as_schedule(self.schedule)(step) * _share(step + 1, self.steps)


def as_schedule(learning_rate: float | Callable) -> Callable:
    """Returns a schedule unchanged; converts a number to a schedule that always returns it.

    Args:
      learning_rate: a number, or a function of the step.

    Raises:
      ConfigError: `learning_rate` is neither a number nor a function.
    """
    if isinstance(learning_rate, type):
        name = learning_rate.__name__
        raise ConfigError(f"learning rate {name}: it is a class. Fix: give an instance, {name}(...).")
    if callable(learning_rate):
        return learning_rate
    if not _is_number(learning_rate):
        raise ConfigError(
            f"learning rate {learning_rate!r}: it must be a number, or a function of the step such as CosineDecay."
        )
    return _Constant(learning_rate)


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


def _check_every(schedule: StepDecay | ExponentialDecay) -> None:
    if schedule.every < 1:
        raise ConfigError(f"{type(schedule).__name__}.every = {schedule.every}: it must be at least 1 step.")


def _check_initial(schedule: MilestoneDecay | CosineDecay | PolyDecay) -> None:
    _check(schedule, "initial", lambda rate: 0 < rate < math.inf, "a positive learning rate")


def _check(schedule: object, name: str, is_right: Callable[[float], bool], what: str) -> None:
    value = getattr(schedule, name)
    if not (_is_number(value) and is_right(value)):
        raise ConfigError(f"{type(schedule).__name__}.{name} = {value!r}: it must be {what}.")


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1
