"""Schedules equal their closed formulas for Python numbers, for tensors and within a program."""

import math

import numpy as np
import pytest
import tensorflow as tf

from mtf_imaging.errors import ConfigError
from mtf_imaging.training.optimizers import (
    SGD,
    CosineDecay,
    ExponentialDecay,
    MilestoneDecay,
    PolyDecay,
    StepDecay,
    WarmUp,
)
from mtf_imaging.training.optimizers.schedules import as_schedule
from tests.training import linear


def cosine(step):
    return 0.01 + (0.5 - 0.01) * (1 + math.cos(math.pi * min(step, 40) / 40)) / 2


def poly(step):
    return 0.5 * (1 - min(step, 40) / 40) ** 0.9


def milestones(step):
    return 0.5 if step < 4 else 0.5 * 0.3 if step < 40 else 0.5 * 0.3**2


SCHEDULES = {
    "milestones": (MilestoneDecay(0.5, milestones=(4, 40), factor=0.3), milestones),
    "warm-up, then milestones": (
        WarmUp(MilestoneDecay(0.5, milestones=(4, 40), factor=0.3), 3),
        lambda s: milestones(s) * min((s + 1) / 3, 1),
    ),
    "cosine": (CosineDecay(0.5, steps=40, final=0.01), cosine),
    "poly": (PolyDecay(0.5, steps=40), poly),
    "poly of nnU-Net": (PolyDecay(steps=1000), lambda step: 0.01 * (1 - step / 1000) ** 0.9),
    "warm-up, then cosine": (
        WarmUp(CosineDecay(0.5, steps=40, final=0.01), 8),
        lambda s: cosine(s) * min((s + 1) / 8, 1),
    ),
    "warm-up, then steps": (WarmUp(StepDecay(0.2, 0.5, 10), 4), lambda s: 0.2 * 0.5 ** (s // 10) * min((s + 1) / 4, 1)),
    "warm-up of a number": (WarmUp(0.1, 5), lambda step: 0.1 * min((step + 1) / 5, 1)),
    "warm-up of a warm-up": (WarmUp(WarmUp(0.1, 2), 4), lambda s: 0.1 * min((s + 1) / 2, 1) * min((s + 1) / 4, 1)),
}
STEPS = (0, 1, 3, 4, 7, 8, 20, 39, 40, 41, 100)


@pytest.mark.parametrize("name", SCHEDULES)
def test_values_equal_the_formula(name):
    schedule, formula = SCHEDULES[name]
    want = [formula(step) for step in STEPS]
    np.testing.assert_allclose([schedule(step) for step in STEPS], want, rtol=1e-12, atol=1e-16)
    tensors = [schedule(tf.constant(step, tf.float64)) for step in STEPS]
    np.testing.assert_allclose(tensors, want, rtol=1e-12, atol=1e-16)
    assert {tensor.dtype for tensor in tensors} == {tf.float64}
    np.testing.assert_allclose(
        schedule(tf.constant(STEPS, tf.float64)), want, rtol=1e-12, atol=1e-16
    )  # a tensor of several steps


@pytest.mark.parametrize("name", ["cosine", "milestones", "warm-up, then cosine"])
def test_a_program_uses_the_schedule(name):
    schedule, formula = SCHEDULES[name]
    optimizer = SGD(schedule, momentum=0.0)
    program = linear.program(optimizer, "rows:2,cores:2", "x:rows,batch:cores")
    want = program.variables["linear/weights"].numpy()
    for step, batch in enumerate(linear.take(6)):
        gradient = 2 / len(batch["target"]) * batch["image"].T @ (batch["image"] @ want - batch["target"])
        want = want - formula(step) * gradient
        program(**batch)
        assert optimizer.learning_rate(step) == pytest.approx(formula(step), rel=1e-12)
    np.testing.assert_allclose(program.variables["linear/weights"], want, rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        *((lambda n=n: CosineDecay(0.1, steps=n), f"CosineDecay.steps = {n!r}: it must be an int") for n in (0, "all")),
        (lambda: CosineDecay(-0.1, steps=10), "CosineDecay.initial = -0.1: it must be a number above 0."),
        (
            lambda: CosineDecay(0.1, steps=10, final=0.2),
            "CosineDecay.final = 0.2: it must be a number of at least 0 and",
        ),
        *(
            (lambda steps=steps: MilestoneDecay(0.1, milestones=steps), f"MilestoneDecay.milestones = {steps!r}: ")
            for steps in [(), (0,), (5, 5), (9, 5), (2.5,), (True,), 5]
        ),
        (lambda: MilestoneDecay(0.1, milestones=(5,), factor=0), "MilestoneDecay.factor = 0: it must be"),
        (lambda: PolyDecay(0.1, steps=-5), "PolyDecay.steps = -5: it must be"),
        (lambda: PolyDecay(float("nan"), steps=5), "PolyDecay.initial = nan: it must be"),
        (lambda: PolyDecay(0.1, steps=5, power=0), "PolyDecay.power = 0: it must be a number above 0."),
        *((lambda own=own: own(every=0), f"{own.__name__}.every = 0") for own in (StepDecay, ExponentialDecay)),
        (lambda: WarmUp(0.1, 0), "WarmUp.steps = 0: it must be an int of at least 1."),
        (lambda: WarmUp("CosineDecay"), "WarmUp.schedule = 'CosineDecay': it must be a number above 0, or a function."),
    ],
)
def test_invalid_parameters_are_refused(make, text):
    with pytest.raises(ConfigError) as error:
        make()
    assert text in str(error.value)


def test_defaults_are_the_values_of_the_paper():
    assert [StepDecay()(step) for step in (0, 19_999, 20_000)] == [0.003, 0.003, 0.3 * 0.003]
    assert ExponentialDecay(2.0, 0.25, 10)(5) == 1.0
    assert as_schedule(0.1)(7) == 0.1


@pytest.mark.parametrize("schedule", [CosineDecay, PolyDecay])
def test_the_number_of_steps_has_no_default_and_is_given_by_name(schedule):
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'steps'"):
        schedule(0.1)
    with pytest.raises(TypeError, match="positional"):
        schedule(0.1, 0.0, 40)
