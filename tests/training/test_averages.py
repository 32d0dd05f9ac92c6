"""Averages of the weights: their formula, their place in checkpoints, and where they replace the weights."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.errors import ConfigError
from mtf_imaging.training.averages import averaged
from mtf_imaging.training.checkpoints.checkpoints import Checkpoints
from mtf_imaging.training.checkpoints.initial_weights import InitialWeights
from mtf_imaging.training.optimizers import SGD, Adafactor, Adam, Optimizer
from mtf_imaging.training.prediction import NetworkBuilder, predictor
from mtf_imaging.training.step import TrainingStep, WeightRules
from tests.training import two_layers
from tests.training.two_layers import batches, compute, values, weights

DECAY = 0.3  # reached in the fourth step: (1 + 3) / (10 + 3) = 0.308
LAYOUTS = {"one": ("", ""), "split": ("rows:2,cores:2", "x:rows,batch:cores")}
IMAGE = np.random.default_rng(7).normal(size=(two_layers.SIZE, 4))
SIZES = (two_layers.SIZE,)
NETWORK = {"task": two_layers.TwoLayers(), "dtype": "float64"}


class Assigning(Optimizer):
    """A custom optimizer, which uses all functions that assign to variables, and several of them in a step."""

    def update(self, gradient, variable, step):
        mi.mtf.assign(variable, variable.value * 0.5)
        mi.mtf.assign_add(variable, variable.value * 0.25)
        mi.mtf.assign_sub(variable, gradient * mi.mtf.cast(self.rate, gradient.dtype))


def build(optimizer=None, decay=DECAY, micro_batches=1, layout="one", frozen=(), dtype="float64"):
    step = TrainingStep(
        two_layers.TwoLayers(),
        optimizer or SGD(0.1),
        (two_layers.SIZE,),
        4,
        micro_batches,
        dtype,
        weights=WeightRules(frozen, decay),
    )
    return step.build(mi.Layout.parse(*LAYOUTS[layout]))


@pytest.mark.parametrize(
    ("optimizer", "micro_batches", "layout", "frozen"),
    [
        (SGD(0.1, nesterov=True, weight_decay=0.1), 1, "one", ()),
        (SGD(0.1), 2, "split", ()),
        (Adam(0.1), 1, "split", "first"),
        (Adafactor(0.1), 2, "one", "*_norm"),
        (Assigning(0.1), 1, "split", ()),
    ],
    ids=["sgd", "micro-batches", "adam", "adafactor", "custom"],
)
def test_averages_equal_their_formula(optimizer, micro_batches, layout, frozen):
    step = build(optimizer, micro_batches=micro_batches, layout=layout, frozen=frozen)
    start = values(step.program)
    trained = weights(start) - {*step.network.frozen}
    assert {name for name in start if name.endswith("/average")} == {f"{name}/average" for name in trained}
    want = {name: start[name] for name in trained}
    for number, batch in enumerate(batches(5), 1):
        compute(step, batch, micro_batches)
        after = values(step.program)
        decay = min(DECAY, (1 + number) / (10 + number))
        want = {name: decay * want[name] + (1 - decay) * after[name] for name in trained}
        for name in trained:
            np.testing.assert_allclose(after[f"{name}/average"], want[name], rtol=1e-12, atol=1e-15, err_msg=name)
    assert any(np.abs(want[name] - after[name]).max() > 1e-3 for name in trained)


def test_averages_equal_those_of_tensorflow():
    step = build(decay=0.9)
    number = tf.Variable(0)
    copies = {name: tf.Variable(step.program.variables[name]) for name in weights(values(step.program))}
    average = tf.train.ExponentialMovingAverage(0.9, num_updates=number)
    average.apply([*copies.values()])
    for copy in copies.values():
        average.average(copy).assign(copy)
    for batch in batches(4):
        step(**batch)
        number.assign_add(1)
        for name, copy in copies.items():
            copy.assign(step.program.variables[name])
        average.apply([*copies.values()])
    for name, copy in copies.items():
        got = step.program.variables[f"{name}/average"]
        np.testing.assert_allclose(got, average.average(copy), rtol=1e-6, err_msg=name)  # their decay is float32


def test_averages_do_not_affect_the_training():
    with_averages, without = build(), build(decay=None)
    for batch in batches(3):
        with_averages(**batch)
        without(**batch)
    after = values(with_averages.program)
    for name, value in values(without.program).items():
        np.testing.assert_array_equal(after[name], value, err_msg=name)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_predictions_use_the_averages(tmp_path, layout):
    step = build(layout=layout)
    for batch in batches(3):
        step(**batch)
    Checkpoints(tmp_path, step.program).save()
    before = values(step.program)
    predict = NetworkBuilder(**NETWORK).network_of(step.program, SIZES)
    last = predict(IMAGE)
    with averaged(step.program):
        average = predict(IMAGE)
    assert abs(average - last) > 1e-3
    for name, value in values(step.program).items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)
    np.testing.assert_allclose(predictor(model_dir=tmp_path, sizes=SIZES, **NETWORK)(IMAGE), average, rtol=1e-12)
    np.testing.assert_allclose(
        predictor(model_dir=tmp_path, sizes=SIZES, **NETWORK, averages=False)(IMAGE), last, rtol=1e-12
    )

    other = build(decay=None)
    InitialWeights(tmp_path).apply(other.program)
    np.testing.assert_array_equal(other.program.variables["first/kernel"], before["first/kernel/average"])
    np.testing.assert_array_equal(
        other.program.variables["first_norm/moving_mean"], before["first_norm/moving_mean"]
    )  # not averaged


def test_weights_return_after_an_error():
    step = build()
    step(**next(batches(1)))
    before = values(step.program)
    with contextlib.suppress(KeyboardInterrupt), averaged(step.program):
        assert not np.array_equal(step.program.variables["first/kernel"], before["first/kernel"])
        raise KeyboardInterrupt
    for name, value in values(step.program).items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)


def test_averages_can_begin_and_end_when_a_run_resumes(tmp_path, caplog):
    caplog.set_level("INFO")
    without = build(decay=None)
    for batch in batches(2):
        without(**batch)
    Checkpoints(tmp_path, without.program).save()
    begun = build()
    Checkpoints(tmp_path, begun.program).restore()
    assert "6 averages of weights, such as 'first/kernel/average', begin at the weights" in caplog.text
    start = values(begun.program)
    for name in weights(start):
        np.testing.assert_array_equal(start[f"{name}/average"], start[name], err_msg=name)
    for batch in batches(1, start=2):
        begun(**batch)
    Checkpoints(tmp_path, begun.program).save()
    ended = build(decay=None)
    Checkpoints(tmp_path, ended.program).restore()
    assert "6 averages of weights, such as 'first/kernel/average', are dropped" in caplog.text
    np.testing.assert_array_equal(ended.program.variables["first/kernel"], begun.program.variables["first/kernel"])


@pytest.mark.parametrize("decay", [0, 1, 1.5, -0.1, float("nan"), "0.9", True], ids=str)
def test_an_invalid_decay_is_refused(decay):
    with pytest.raises(ConfigError, match=f"average_decay = {decay!r}: it must be a number above 0 and below 1, or N"):
        build(decay=decay)


class Clashing(Optimizer):
    def update(self, gradient, variable, step):
        mi.mtf.assign(self.slot(variable, "average"), gradient)


class Unusual(Optimizer):
    def update(self, gradient, variable, step):
        def keep(variable, master, value):
            return master.assign(master)

        mi.mtf.assign(variable, gradient, assign_fn=keep)


@pytest.mark.parametrize(
    ("optimizer", "text"),
    [
        (Clashing(0.1), "the optimizer has a slot 'first/kernel/average', which is the name of the average"),
        (Unusual(0.1), "the average of variable 'first/kernel' cannot be computed. Fix: "),
    ],
    ids=["clashing", "unusual"],
)
def test_optimizers_without_exact_averages_are_refused(optimizer, text):
    with pytest.raises(ConfigError, match=f"average_decay: {text}"):
        build(optimizer)


def test_averages_are_float32_in_bfloat16():
    variables = build(dtype="bfloat16").program.variables
    assert {variables[name].dtype for name in variables if name.endswith("/average")} == {tf.float32, tf.bfloat16}
