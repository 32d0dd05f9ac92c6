"""Learning rates as functions of the step: plain arithmetic, on Python numbers and TensorFlow's scalars alike."""

from dataclasses import dataclass

import gin

from mtf_imaging.errors import ConfigError


@gin.configurable(module="mtf_imaging")
@dataclass(frozen=True)
class StepDecay:
    """`initial factor^floor(step / every)`; the defaults are those of Hou et al. 2019.

    >>> StepDecay(1.0, factor=0.5, every=10)(25)
    0.25
    """

    initial: float = 0.003
    factor: float = 0.3
    every: int = 20_000

    def __post_init__(self):
        _check_every(self)

    def __call__(self, step):
        return self.initial * self.factor ** (step // self.every)


@gin.configurable(module="mtf_imaging")
@dataclass(frozen=True)
class ExponentialDecay:
    """`initial factor^(step / every)`: the same as `StepDecay`, without its steps.

    >>> ExponentialDecay(1.0, factor=0.25, every=10)(5)
    0.5
    """

    initial: float = 0.003
    factor: float = 0.3
    every: int = 20_000

    def __post_init__(self):
        _check_every(self)

    def __call__(self, step):
        return self.initial * self.factor ** (step / self.every)


def as_schedule(learning_rate):
    """A number as a schedule that always returns it; a schedule as it is."""
    if callable(learning_rate):
        return learning_rate
    return lambda step: learning_rate + 0 * step


def _check_every(schedule):
    if schedule.every < 1:
        raise ConfigError(f"{type(schedule).__name__}.every = {schedule.every}: it must be at least 1 step.")
