"""Optimizers against their formulas in numpy, and schedules."""

import gin
import numpy as np
import pytest

from mtf_imaging.errors import ConfigError, TrainingError
from mtf_imaging.training.optimizers import optimizers, schedules
from tests.training import linear

STEPS = 12
DECAY = schedules.StepDecay(0.05, factor=0.5, every=4)


def gradient(w, image, target):
    return 2 / len(target) * image.T @ (image @ w - target)


def sgd(w, inputs, momentum):
    velocity = np.zeros_like(w)
    for step, batch in enumerate(inputs):
        velocity = momentum * velocity + gradient(w, **batch)
        w = w - DECAY(step) * velocity
    return w


def adam(w, inputs, beta1, beta2, epsilon):
    mean, square = np.zeros_like(w), np.zeros_like(w)
    for step, batch in enumerate(inputs):
        g = gradient(w, **batch)
        mean, square = beta1 * mean + (1 - beta1) * g, beta2 * square + (1 - beta2) * g**2
        unbiased = mean / (1 - beta1 ** (step + 1)), square / (1 - beta2 ** (step + 1))
        w = w - DECAY(step) * unbiased[0] / (np.sqrt(unbiased[1]) + epsilon)
    return w


@pytest.mark.parametrize("layout", [("", ""), ("rows:2,cores:2", "x:rows,batch:cores")], ids=str)
@pytest.mark.parametrize(
    ("optimizer", "formula"),
    [
        (optimizers.SGD(DECAY, momentum=0.0), lambda w, inputs: sgd(w, inputs, 0.0)),
        (optimizers.SGD(DECAY, momentum=0.8), lambda w, inputs: sgd(w, inputs, 0.8)),
        (optimizers.Adam(DECAY, 0.8, 0.99, 1e-3), lambda w, inputs: adam(w, inputs, 0.8, 0.99, 1e-3)),
    ],
    ids=["sgd", "momentum", "adam"],
)
def test_a_run_equals_the_formula(optimizer, formula, layout):
    program = linear.program(optimizer, *layout)
    weights = program.variables["linear/weights"]
    want = formula(weights.numpy(), linear.take(STEPS))
    for batch in linear.take(STEPS):
        program(**batch)
    np.testing.assert_allclose(weights, want, rtol=1e-12)


def test_schedules():
    assert [schedules.StepDecay()(step) for step in (0, 19_999, 20_000)] == [0.003, 0.003, 0.3 * 0.003]
    assert schedules.ExponentialDecay(2.0, 0.25, 10)(5) == 1.0
    assert schedules.as_schedule(0.1)(7) == 0.1
    with pytest.raises(ConfigError, match=r"StepDecay\.every = 0: it must be at least 1 step"):
        schedules.StepDecay(every=0)


def test_gin_names():
    with gin.unlock_config():
        gin.parse_config("Adam.learning_rate = @ExponentialDecay()\nExponentialDecay.initial = 0.5\nSGD.momentum = 0.1")
    try:
        assert optimizers.Adam()._schedule(0) == 0.5
    finally:
        gin.clear_config()


def test_a_weight_that_the_loss_does_not_use():
    class Idle(linear.Linear):
        def loss(self, image, target):
            linear.Linear(name="unused").loss(image, target)
            return super().loss(image, target)

    with pytest.raises(TrainingError, match="the loss does not depend on unused/weights"):
        linear.program(optimizers.SGD(0.1), task=Idle())
