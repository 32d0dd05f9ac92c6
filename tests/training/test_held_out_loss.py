"""The held-out loss is the training loss of the network in inference mode, under every layout."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.layout import Layout
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.training.held_out_loss import HeldOutLoss
from mtf_imaging.training.micro_batches import MicroBatches, part_inputs
from mtf_imaging.training.optimizers import SGD
from mtf_imaging.training.step import training_step
from mtf_imaging.training.task import task_inputs
from tests.training import linear

SIZES = (8, 8, 4)
BATCH = 2
SETUPS = {
    "stacked": {"layout": Layout.parse("rows:2,cols:2", "x:rows,y:cols"), "mesh_impl": "stacked"},
    "placement": {"layout": Layout.parse("rows:2,cores:2", "x:rows,batch:cores"), "mesh_impl": "placement"},
    "uneven": {"layout": Layout.parse("rows:3,cores:3", "x:rows,batch:cores"), "mesh_impl": "stacked"},
}


def test_it_is_the_loss_without_dropout_and_changes_nothing():
    task = linear.Linear(dropout_rate=0.5)
    program = linear.program(SGD(0.1), task=task)
    weights = program.variables["linear/weights"].numpy()
    loss = HeldOutLoss(task, task.inputs(2), variables=program)(linear.take(3))
    errors = [batch["image"] @ weights - batch["target"] for batch in linear.take(3)]
    assert loss == pytest.approx(np.mean(np.square(errors)), rel=1e-14)
    assert int(program.step) == 0
    np.testing.assert_array_equal(program.variables["linear/weights"], weights)


def test_assignments_of_the_loss_are_those_of_training_only():
    class Counting(linear.Linear):
        def loss(self, image, target):
            options = {"initializer": tf.zeros_initializer(), "trainable": False}
            counter = mi.mtf.get_variable(image.mesh, "counter", mi.mtf.Shape([]), dtype=image.dtype, **options)
            mi.mtf.assign(image.graph.name_to_variable["counter"], counter + 1)
            return super().loss(image, target)

    task = Counting()
    program = linear.program(SGD(0.1), task=task)
    HeldOutLoss(task, task.inputs(2), variables=program)(linear.take(3))
    assert (int(program.step), float(program.variables["counter"])) == (0, 0)
    program(**next(linear.take(1)))
    assert (int(program.step), float(program.variables["counter"])) == (1, 1)


def test_the_loss_of_a_batch_is_the_mean_over_its_micro_batches():
    task = linear.Linear()
    program = linear.program(SGD(0.1), task=task)
    weights = program.variables["linear/weights"].numpy()
    loss = HeldOutLoss(task, part_inputs(task.inputs(2), 2), 2, variables=program)
    errors = [batch["image"] @ weights - batch["target"] for batch in linear.take(3)]
    found = loss([parts(batch, 2) for batch in linear.take(3)])
    assert found == pytest.approx(np.mean(np.square(errors)), rel=1e-14)


def test_it_follows_the_program_that_trains():
    task = linear.Linear()
    program = linear.program(SGD(0.1), task=task)
    loss = HeldOutLoss(task, task.inputs(2), variables=program)
    for batch in linear.take(3):
        before = loss([batch])
        assert program(**batch)["loss"].numpy() == pytest.approx(before, rel=1e-14), "the loss before the update"


def batches(number):
    rng = np.random.default_rng(1)
    for _ in range(number):
        labels = rng.integers(0, 3, (BATCH, *SIZES), np.int32)
        yield {"image": rng.uniform(size=(BATCH, *SIZES, 1)), "labels": labels}


def trained(task, count, **setup):
    """Trains two steps; returns the program and its held-out loss over two more batches."""
    inputs = part_inputs(task_inputs(task, BATCH, SIZES, dtype="float64"), count)
    if count == 1:
        program = step = mi.Program(training_step(task, SGD(0.01)), inputs, **setup)
    else:
        step = MicroBatches(task, SGD(0.01), inputs, count, **setup)
        program = step.program
    *before, first, second = batches(4)
    for batch in before:
        step(parts=parts(batch, count)) if count > 1 else step(**batch)
    loss = HeldOutLoss(task, inputs, count, variables=program, **setup)
    return program, loss([parts(batch, count) if count > 1 else batch for batch in (first, second)])


def parts(batch, count):
    size = BATCH // count
    return [{name: value[i * size : (i + 1) * size] for name, value in batch.items()} for i in range(count)]


def unet(norm, **task):
    """Returns a task with deep supervision at two levels, and dropout on all convolutions except the first and last."""
    network = {"base_filters": 2, "depth": 3, "convs": 1, "dropout_rate": 0.5, "deep_supervision": 1}
    return LiverTumorSegmentation(UNet3D(norm=norm, **network), **task)


@pytest.fixture(scope="module")
def whole():
    return trained(unet("batch"), 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", SETUPS)
def test_it_is_the_same_under_every_layout(whole, name):
    assert trained(unet("batch"), 1, **SETUPS[name])[1] == pytest.approx(whole[1], rel=1e-9)


@pytest.mark.slow
def test_it_is_the_same_in_micro_batches():
    """The Dice loss has sums over the whole batch. Batch norm is excluded, because it depends on the micro-batches."""
    task = unet("instance", dice_over="batch", dice_weight=0.9)
    assert trained(task, 2, **SETUPS["stacked"])[1] == pytest.approx(trained(task, 1)[1], rel=1e-9)


@pytest.mark.slow
def test_norms_use_what_they_have_learned_and_learn_nothing(whole):
    program, expected = whole
    moving = {name: value.numpy() for name, value in program.variables.items() if "moving" in name}
    again = HeldOutLoss(unet("batch"), task_inputs(unet("batch"), BATCH, SIZES, dtype="float64"), variables=program)
    first, second = list(batches(4))[2:]
    assert again([first, second]) == expected
    for name, value in moving.items():
        np.testing.assert_array_equal(program.variables[name], value)
        program.variables[name].assign(value + 0.5)
    assert again([first, second]) != pytest.approx(expected, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["", "x:rows", "batch:rows"])
def test_losses_are_the_same_under_layouts_and_in_parts(layout):
    task, name = linear.Linear(dropout_rate=0.5), layout
    layout = {"layout": Layout.parse("rows:2", layout)} if layout else {}
    program = linear.program(SGD(0.1), task=task)
    inputs = {name: (shape, dtype) for name, (shape, dtype) in task.inputs(2).items()}
    whole = HeldOutLoss(task, inputs, variables=program)(linear.take(3))
    assert HeldOutLoss(task, inputs, variables=program, **layout)(linear.take(3)) == pytest.approx(whole, rel=1e-12)
    if name != "batch:rows":
        in_two = HeldOutLoss(task, part_inputs(inputs, 2), 2, variables=program, **layout)
        assert in_two([parts(batch, 2) for batch in linear.take(3)]) == pytest.approx(whole, rel=1e-12)
