"""Frozen weights do not change, cost no backward pass, and can be thawed when a run resumes."""

import collections
import logging

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.errors import CheckpointError, ConfigError
from mtf_imaging.models.resnet import Classification, ResNet
from mtf_imaging.planner.cost.plan import make_plan
from mtf_imaging.training.checkpoints.checkpoints import Checkpoints
from mtf_imaging.training.gradients import BACKWARD
from mtf_imaging.training.optimizers import SGD, Adafactor, Adam
from mtf_imaging.training.step import TrainingStep, WeightRules
from mtf_imaging.training.variable_names import NamePatterns
from tests.training import two_layers
from tests.training.two_layers import EPSILON, MOMENTUM, batches, compute, values

LAYOUTS = {"one": ("", ""), "split": ("rows:2,cores:2", "x:rows,batch:cores"), "uneven": ("rows:4", "x:rows")}
STEPS = 3
FIRST = {f"first/{n}" for n in ("kernel",)} | {
    f"first_norm/{n}" for n in ("scale", "offset", "moving_mean", "moving_variance")
}


def step(frozen="first*", optimizer=None, micro_batches=1, layout="one"):
    built = TrainingStep(
        two_layers.TwoLayers(),
        optimizer or SGD(0.1, weight_decay=0.5),
        (two_layers.SIZE,),
        4,
        micro_batches,
        "float64",
        weights=WeightRules(frozen),
    )
    return built.build(mi.Layout.parse(*LAYOUTS[layout]))


def reference(start):
    """Trains the second layer in TensorFlow; returns its weights and moving statistics, and the losses."""
    names = ["second/kernel", "second_norm/scale", "second_norm/offset"]
    trained = {name: tf.Variable(start[name]) for name in names}
    moving = [start["second_norm/moving_mean"], start["second_norm/moving_variance"]]
    velocity, losses = dict.fromkeys(names, 0.0), []
    for batch in batches(STEPS):
        x = batch["image"] @ start["first/kernel"]  # the initial moving statistics are 0 and 1
        x = tf.nn.relu(x / np.sqrt(1 + EPSILON) * start["first_norm/scale"] + start["first_norm/offset"])
        with tf.GradientTape() as tape:
            y = x @ trained[names[0]]
            mean, variance = tf.nn.moments(y, [0, 1])
            y = tf.nn.batch_normalization(y, mean, variance, trained[names[2]], trained[names[1]], EPSILON)
            loss = tf.reduce_mean((tf.reduce_mean(tf.nn.relu(y), [1, 2]) - batch["target"]) ** 2)
        losses.append(float(loss))
        gradients = tape.gradient(loss, trained)
        gradients[names[0]] += 0.5 * trained[names[0]]
        for name in names:
            velocity[name] = 0.9 * velocity[name] + gradients[name]
            trained[name].assign_sub(0.1 * velocity[name])
        moving = [MOMENTUM * old + (1 - MOMENTUM) * new.numpy() for old, new in zip(moving, (mean, variance))]
    result = {name: variable.numpy() for name, variable in trained.items()}
    return result | {"second_norm/moving_mean": moving[0], "second_norm/moving_variance": moving[1]}, losses


@pytest.mark.parametrize("layout", LAYOUTS)
def test_only_the_other_weights_are_trained(layout):
    built = step(layout=layout)
    start = values(built.program)
    losses = [float(built(**batch)["loss"]) for batch in batches(STEPS)]
    after = values(built.program)
    trained, want = reference(start)
    np.testing.assert_allclose(losses, want, rtol=1e-9)
    for name in trained:
        assert np.abs(after[name] - start[name]).max() > 1e-3, name
        np.testing.assert_allclose(after[name], trained[name], rtol=1e-9, err_msg=name)
    for name in FIRST:
        np.testing.assert_array_equal(after[name], start[name], err_msg=name)
    assert {name for name in after if name.startswith("first")} == FIRST, "frozen weights have no slots"
    assert {*built.network.frozen} == {name for name in FIRST if "moving" not in name}


@pytest.mark.parametrize("layout", ["one", "split"])
def test_micro_batches_freeze_the_same_weights(layout):
    """With all norms frozen, the micro-batches do not affect the statistics, so the results are equal."""
    results = []
    for count in (1, 2):
        built = step("first,*_norm", Adam(0.1), count, layout if count > 1 else "one")
        start = values(built.program)
        for batch in batches(STEPS):
            compute(built, batch, count)
        results.append(values(built.program))
        changed = {name for name, value in results[-1].items() if not np.array_equal(value, start[name])}
        assert changed == {"second/kernel", "second/kernel/mean", "second/kernel/square"}
    for name, value in results[0].items():
        np.testing.assert_allclose(results[1][name], value, rtol=1e-9, err_msg=name)


def test_a_frozen_norm_may_train_its_scale_and_keep_its_statistics():
    built = step("*/moving_*")
    start = values(built.program)
    compute(built, next(batches(1)), 1)
    after = values(built.program)
    same = {name for name in start if np.array_equal(start[name], after[name])}
    assert same == {f"{layer}_norm/moving_{which}" for layer in ("first", "second") for which in ("mean", "variance")}


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("micro_batches", [1, 2])
def test_the_backward_pass_of_frozen_layers_is_not_computed(micro_batches, recompute):
    """ResNet: 6 convolutions; 1 in the stem and 2 in the first stage, which come first."""
    task = Classification(ResNet(classes=4, blocks=(1, 1), base_filters=4, recompute=recompute))
    counts, states = [], []
    for frozen in ((), "resnet/stem*", ("resnet/stem*", "resnet/stage0")):
        own = TrainingStep(task, SGD(0.1), (16, 16), 2, micro_batches, weights=WeightRules(frozen))
        traced = own.trace()
        kinds = collections.Counter(type(op).__name__ for op, phase in traced.phases.items() if phase == BACKWARD)
        names = ("ConvFilterGrad", "ConvInputGrad", "NormalizeGrad", "MaxPoolGrad", "Conv")
        counts.append(tuple(kinds[name] for name in names))
        states.append(make_plan(traced, mi.Layout()).state)
    # With recomputation, a block computes its convolutions again, but the first one needs no gradient of its input.
    again = [6, 5, 3] if recompute else [0, 0, 0]
    assert counts == [(6, 5, 6, 1, again[0]), (5, 4, 5, 0, again[1]), (3, 1, 3, 0, again[2])]
    assert states[0] > states[1] > states[2]


@pytest.mark.parametrize(
    ("patterns", "selected"),
    [
        ("a/b", ["a/b/w", "a/b/c/w"]),
        ("a/b/w", ["a/b/w"]),
        ("a/b*", ["a/b/w", "a/b/c/w", "a/b_norm/scale"]),
        ("a/b/, d", ["a/b/w", "a/b/c/w", "d"]),
        (["*/scale"], ["a/b_norm/scale"]),
        (("a/?",), ["a/b/w", "a/b/c/w"]),
        ("", []),
        ("b", []),
        ("A/b", []),
    ],
    ids=str,
)
def test_patterns_of_names(patterns, selected):
    names = ["a/b/w", "a/b/c/w", "a/b_norm/scale", "d"]
    assert [name for name in names if NamePatterns(patterns, "frozen").matches(name)] == selected


@pytest.mark.parametrize(
    ("frozen", "text"),
    [
        (
            "firsd*",
            "frozen: no variable of the network has this name or is in the scope 'firsd*'. Did you mean 'first'? "
            "Fix: use a scope such as 'first'.",
        ),
        (
            "first*,second*",
            "frozen = first*, second*: this freezes all weights of the network, so there is nothing to train. "
            "Fix: freeze fewer scopes.",
        ),
        (3, "frozen = 3: it must be a string, or a tuple in which each element is a string."),
    ],
    ids=["unknown", "all", "number"],
)
@pytest.mark.parametrize("micro_batches", [1, 2])
def test_mistakes_are_reported(frozen, text, micro_batches):
    with pytest.raises(ConfigError) as error:
        step(frozen, micro_batches=micro_batches)
    assert str(error.value) == text
    assert error.value.settings == ("frozen",)


@pytest.mark.parametrize("optimizer", [Adam(0.1), Adafactor(0.1)], ids=["adam", "adafactor"])
def test_a_run_resumes_with_other_frozen_weights(tmp_path, optimizer, caplog):
    """Trains with a frozen layer, thaws it, and freezes it again."""
    first = step("first*", optimizer)
    for batch in batches(2):
        first(**batch)
    Checkpoints(tmp_path, first.program).save()

    thawed = step("", optimizer)
    slots = {name for name in values(thawed.program) if name.startswith("first")} - FIRST
    assert slots
    for name in slots:  # restoring must not rely on the initial values
        thawed.program.variables[name].assign(np.ones(thawed.program.variables[name].shape))
    caplog.set_level(logging.INFO)
    assert Checkpoints(tmp_path, thawed.program).restore() == 2
    assert f"weights with {len(slots)} slots, such as 'first" in caplog.text
    assert "are no longer frozen; their slots begin at zero" in caplog.text
    restored, saved = values(thawed.program), values(first.program)
    for name, value in restored.items():
        np.testing.assert_array_equal(value, saved.get(name, 0), err_msg=name)
    for batch in batches(1, start=2):
        thawed(**batch)
    after = values(thawed.program)
    assert all(np.abs(after[name] - restored[name]).max() > 0 for name in {*slots, *FIRST})
    Checkpoints(tmp_path, thawed.program).save()

    again = step("first*", optimizer)
    assert Checkpoints(tmp_path, again.program).restore() == 3
    assert "are now frozen; their slots are dropped" in caplog.text
    for name, value in values(again.program).items():
        np.testing.assert_array_equal(value, after[name], err_msg=name)


@pytest.mark.parametrize(
    ("before", "after"),
    [(SGD(0.1, 0.0), Adam(0.1)), (Adam(0.1), SGD(0.1, 0.0)), (Adam(0.1), SGD(0.1))],
    ids=["added", "removed", "other"],
)
def test_another_optimizer_is_still_refused(tmp_path, before, after):
    Checkpoints(tmp_path, step("first*", before).program).save()
    for frozen in ("first*", ""):
        with pytest.raises(CheckpointError, match="belongs to another network or optimizer"):
            Checkpoints(tmp_path, step(frozen, after).program).restore()
