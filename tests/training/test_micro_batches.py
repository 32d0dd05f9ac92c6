"""Micro-batches give the same losses and variables as the whole batch, for any number and under any layout."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.layout import Layout
from mtf_imaging.errors import ConfigError, NotSupportedError
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.training.micro_batches import MicroBatches, in_parts, part_inputs
from mtf_imaging.training.optimizers import SGD
from mtf_imaging.training.step import training_step
from tests.training import linear

SIZES, BATCH = (8, 8, 4), 4
LAYOUTS = {
    "whole": {},
    "stacked": {"layout": Layout.parse("rows:2,cols:2", "x:rows,y:cols"), "mesh_impl": "stacked"},
    "placement": {"layout": Layout.parse("rows:2,cores:2", "x:rows,batch:cores"), "mesh_impl": "placement"},
    "uneven": {"layout": Layout.parse("rows:3,cores:3", "x:rows,batch:cores"), "mesh_impl": "stacked"},
}


def unet(norm="none", dropout_rate=0.5):
    network = UNet3D(base_filters=2, depth=2, convs=1, norm=norm, norm_groups=1, dropout_rate=dropout_rate)
    return LiverTumorSegmentation(network)


def batches(number, batch_size=BATCH):
    rng = np.random.default_rng(5)
    for _ in range(number):
        labels = rng.integers(0, 3, (batch_size, *SIZES)).astype(np.int32)
        labels[0] = 0  # a case without a lesion has another weight in the Dice of the batch
        yield {"image": rng.random((batch_size, *SIZES, 1)), "labels": labels}


def parts_of(batch, count):
    """Splits a batch into a list of `count` micro-batches."""
    split = {name: np.split(value, count) for name, value in batch.items()}
    return [{name: value[i] for name, value in split.items()} for i in range(count)]


def train(count, number=3, task=None, inputs=None, given=None, **layout):
    """Trains; returns the losses and measures of each step, the final variables and the step number."""
    task = task or unet()
    inputs = inputs or task.inputs(BATCH, SIZES, dtype="float64")
    optimizer = SGD(0.1, momentum=0.9)
    if count == 1:
        program = mi.Program(training_step(task, optimizer), inputs, seed=3, **layout)
    else:
        step = MicroBatches(task, optimizer, part_inputs(inputs, count), count, seed=3, **layout)
        program = step.program
    rows = []
    for batch in given or batches(number):
        values = program(**batch) if count == 1 else step(parts=parts_of(batch, count))
        rows.append([float(values[name]) for name in sorted(values)])
    return np.array(rows), {name: v.numpy() for name, v in program.variables.items()}, int(program.step)


@pytest.fixture(scope="module")
def at_once():
    return train(1)


@pytest.mark.mostly_slow(fast=0.2)
@pytest.mark.parametrize(
    ("count", "layout"), [(2, "whole"), (4, "whole"), (2, "stacked"), (2, "placement"), (2, "uneven")]
)
def test_micro_batches_train_like_the_whole_batch(at_once, count, layout):
    rows, variables, step = train(count, **LAYOUTS[layout])
    np.testing.assert_allclose(rows, at_once[0], rtol=1e-9)
    assert variables.keys() == at_once[1].keys()
    for name, value in variables.items():
        np.testing.assert_allclose(value, at_once[1][name], rtol=1e-9, atol=1e-12, err_msg=name)
    assert step == at_once[2] == 3


@pytest.mark.slow
@pytest.mark.parametrize(("norm", "layout"), [("group", "stacked"), ("instance", "whole"), ("group", "uneven")])
def test_norms_per_case_are_exact_in_micro_batches(norm, layout):
    task = unet(norm)
    whole, one, _ = train(1, number=1, task=task)
    parts, two, _ = train(2, number=1, task=task, **LAYOUTS[layout])
    np.testing.assert_allclose(parts, whole, rtol=1e-9)
    for name, value in two.items():  # the update uses the gradient of the whole batch
        np.testing.assert_allclose(value, one[name], rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.slow
def test_batch_norm_normalizes_and_updates_its_statistics_per_micro_batch():
    batch = next(batches(1))
    image = np.concatenate([batch["image"][:2]] * 2)  # micro-batches with equal statistics
    twice = [{"image": image, "labels": np.concatenate([batch["labels"][:2]] * 2)}]
    task = unet(norm="batch", dropout_rate=0.0)
    whole, before, _ = train(1, task=task, given=twice)
    parts, after, _ = train(2, task=task, given=twice)
    np.testing.assert_allclose(parts, whole, rtol=1e-9)
    initial = {"mean": 0.0, "variance": 1.0}
    for name in before:
        kind = name.split("moving_")[-1]
        if kind in initial:  # m + (1 - 0.9) (s - m), applied once and twice; derive s from the first
            statistic = (before[name] - 0.9 * initial[kind]) / 0.1
            np.testing.assert_allclose(after[name], 0.81 * initial[kind] + 0.19 * statistic, rtol=1e-9, atol=1e-12)
        else:
            np.testing.assert_allclose(after[name], before[name], rtol=1e-9, atol=1e-12)


def test_a_loss_without_sums_over_the_batch_needs_no_extra_pass():
    task = linear.Linear(dropout_rate=0.4)
    assert len(MicroBatches(task, SGD(0.1), task.inputs(1), 2).calls) == 2
    given, split = list(linear.take(3)), {"layout": Layout.parse("rows:2", "x:rows")}  # splits the weights, too
    whole, one, _ = train(1, task=task, inputs=task.inputs(2), given=given)
    parts, two, _ = train(2, task=task, inputs=task.inputs(2), given=given, **split)
    np.testing.assert_allclose(parts, whole, rtol=1e-9)
    np.testing.assert_allclose(two["linear/weights"], one["linear/weights"], rtol=1e-9)


class Weighted(linear.Linear):
    """Weights the examples, and not all micro-batches have a weight."""

    def loss(self, image, target):
        loss, measures = super().loss(image, target)
        weights = mi.mtf.where(target > 0, 0.125, 0 * target)
        image = mi.mtf.reduce_sum(image, output_shape=target.shape)
        return loss + mi.ops.masked_mean(mi.mtf.square(target), weights), {
            "mean": mi.ops.masked_mean(image, weights),
            **measures,
        }


def test_a_mean_with_weights_covers_all_micro_batches():
    rng = np.random.default_rng(0)
    given = [{"image": rng.normal(size=(4, 8)), "target": np.array([-1.0, -2.0, 3.0, -4.0])}]
    task = Weighted()
    for count in (1, 2, 4):
        rows, _, _ = train(count, task=task, inputs=task.inputs(4), given=given)
        assert rows[0].tolist() == pytest.approx(
            train(1, task=task, inputs=task.inputs(4), given=given)[0][0], rel=1e-9
        )
        assert np.isclose(rows[0], given[0]["image"][2].sum(), rtol=1e-9).any()  # the only example with a weight


class Nested(linear.Linear):
    """A loss whose sum over the batch depends on another sum over the batch."""

    def loss(self, image, target):
        loss, measures = super().loss(image, target)
        total = mi.ops.over_batch(loss)
        return mi.ops.over_batch(loss * total), measures


def test_a_batch_that_cannot_be_split_is_refused():
    task = linear.Linear()
    with pytest.raises(
        ConfigError, match=r"a batch of 4 cannot be split into 3 .* Fix: set micro_batches to a divisor of 4\.$"
    ):
        part_inputs(task.inputs(4), 3)
    with pytest.raises(NotSupportedError, match="depends on another sum over the batch"):
        MicroBatches(Nested(), SGD(0.1), task.inputs(1), 2)


def test_random_values_of_a_micro_batch_match_the_whole_batch():
    def noise(image):
        return image + mi.mtf.random_uniform(image.mesh, image.shape, dtype=tf.float64)

    whole = mi.Program(noise, {"image": ("batch:4,x:3", tf.float64)})(image=np.zeros((4, 3)))
    program = mi.Program(noise, {"image": ("batch:2,x:3", tf.float64)}, "cores:2", "batch:cores", part_of=("batch", 2))
    parts = [program.call_part(i, image=np.zeros((2, 3))) for i in range(2)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    with pytest.raises(mi.ShapeError, match=r"the micro-batch is None, but part_of of the program is \('batch', 2\)"):
        program(image=np.zeros((2, 3)))


def test_all_batches_are_grouped():
    small = ({"x": i, "cases": [f"{i}a", f"{i}b"]} for i in range(6))
    grouped = in_parts(small, 3)
    assert next(grouped) == {"parts": [{"x": 0}, {"x": 1}, {"x": 2}], "cases": ["0a", "0b", "1a", "1b", "2a", "2b"]}
    assert next(grouped)["cases"] == ["3a", "3b", "4a", "4b", "5a", "5b"]
