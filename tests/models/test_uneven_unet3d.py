"""The 3D U-Net on images of any size and uneven slices trains, evaluates and predicts as on one processor.

Everything runs in float64 and agrees to 1e-9, with batch norm and dropout.
"""

import functools

import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.engine.layout import Layout, from_partition_dims
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.training.checkpoints.checkpoints import Checkpoints
from mtf_imaging.training.held_out_loss import HeldOutLoss
from mtf_imaging.training.micro_batches import MicroBatches, part_inputs
from mtf_imaging.training.optimizers import SGD, Adam
from mtf_imaging.training.prediction import NetworkBuilder
from mtf_imaging.training.step import training_step
from tests.engine.ops.windows_of_any_size import devices
from tests.models.programs import assert_close, numbers
from tests.models.test_unet3d import batch, build_program

SIZES = (20, 13, 9)  # at the lower levels 10 x 7 x 5, 5 x 4 x 3 and 3 x 2 x 2 voxels
LAYOUTS = {
    "whole": ("", ""),
    "two axes": ("rows:3,cols:2", "x:rows,y:cols"),
    "empty slices": ("rows:8,cols:3", "x:rows,y:cols"),
    "three axes": ("rows:3,cols:4,planes:2", "x:rows,y:cols,z:planes"),
    "batch and channels": ("cores:3,rows:3,model:2", "batch:cores,x:rows,channels:model"),
    "2 x 2": ("rows:2,cols:2", "x:rows,y:cols"),
    "3 x 5": ("rows:3,cols:5", "x:rows,y:cols"),
}
SHAPES = {
    "kernel_sizes": ((3, 3, 1), (3, 3, 1), (3, 3, 3), (3, 3, 3)),
    "pool_sizes": ((2, 2, 1), (2, 1, 2), (2, 2, 2)),
}


def network(depth=4, **settings):
    return LiverTumorSegmentation(UNet3D(base_filters=2, depth=depth, convs=1, **settings))


@functools.cache
def whole(**settings):
    program = build_program(network(**settings), SIZES)
    return numbers(program(**batch(SIZES)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "mesh_impl"),
    [
        ("two axes", "stacked"),
        ("empty slices", "stacked"),
        ("three axes", "stacked"),
        ("batch and channels", "stacked"),
        ("two axes", "placement"),
        ("three axes", "placement"),
    ],
)
def test_values_and_gradients_equal_those_of_one_processor(layout, mesh_impl):
    mesh_shape, rules = LAYOUTS[layout]
    cpus = devices(mesh_shape, most=6) if mesh_impl == "placement" else None
    depth = {"depth": 2} if mesh_impl == "placement" else {}  # building it takes a second per device and level
    program = build_program(network(**depth), SIZES, mesh_shape, rules, mesh_impl=mesh_impl, devices=cpus)
    assert_close(numbers(program(**batch(SIZES))), whole(**depth), 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "settings"),
    [
        ("two axes", {"norm": "group", "norm_groups": 2, "recompute": True}),
        ("three axes", {"norm": "instance", "deep_supervision": 2}),
        ("three axes", {"norm": "none", "gather_below": 4, "deep_supervision": 2, "recompute": True}),
        ("two axes", {"norm": "batch", "double_before_pool": True, "kernel_size": 5}),
        (
            "three axes",
            {"norm": "instance", "residual": True, "max_filters": 5, "deep_supervision": 1, **SHAPES},
        ),
    ],
    ids=str,
)
def test_all_settings_equal_those_of_one_processor(layout, settings):
    program = build_program(network(**settings), SIZES, *LAYOUTS[layout])
    assert_close(numbers(program(**batch(SIZES))), whole(**settings), 1e-9)


def _steps(program, sizes, steps, batch_size=2):
    rows = [program(**batch(sizes, batch_size, seed)) for seed in steps]
    return np.array([[float(row[name]) for name in sorted(row)] for row in rows])


def _training(sizes, layout, depth=3, mesh_impl="stacked", batch_size=2):
    task = network(depth)
    inputs = task.inputs(batch_size, sizes, "float64")
    return mi.Program(training_step(task, Adam(0.003)), inputs, *LAYOUTS[layout], mesh_impl)


@pytest.mark.slow
def test_a_checkpoint_moves_between_layouts(tmp_path):
    expected, losses = _steps(_training(SIZES, "whole"), SIZES, range(6)), []
    for number, layout in enumerate(["whole", "2 x 2", "3 x 5"]):
        program = _training(SIZES, layout)
        if number:
            assert Checkpoints(tmp_path, program).restore() == 2 * number
        losses.append(_steps(program, SIZES, range(2 * number, 2 * number + 2)))
        Checkpoints(tmp_path, program).save()
    np.testing.assert_allclose(np.concatenate(losses), expected, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("mesh_impl", ["stacked", "placement"])
def test_micro_batches_that_the_cores_do_not_divide(mesh_impl):
    """A batch of 6 in 2 micro-batches of 3 over 2 cores: slices of 2 cases and 1."""
    sizes, count = (7, 6, 5), 2
    task = network(2, norm="instance")
    inputs = task.inputs(6, sizes, "float64")
    optimizer = SGD(0.1, momentum=0.9)
    at_once = mi.Program(training_step(task, optimizer), inputs, seed=3)
    layout = Layout.parse("cores:2,rows:3", "batch:cores,x:rows")
    step = MicroBatches(task, optimizer, part_inputs(inputs, count), count, seed=3, layout=layout, mesh_impl=mesh_impl)
    for seed in range(3):
        values = batch(sizes, 6, seed)
        expected = at_once(**values)
        parts = [{name: value[3 * i : 3 * i + 3] for name, value in values.items()} for i in range(count)]
        for name, value in step(parts=parts).items():
            np.testing.assert_allclose(value, expected[name], rtol=1e-9, err_msg=name)
    for name, value in at_once.variables.items():
        np.testing.assert_allclose(step.program.variables[name], value, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.slow
def test_a_large_image_trains_evaluates_and_predicts_as_on_one_processor():
    """48 x 40 x 35 voxels over 3 x 2 x 2 processors, with levels of 24 x 20 x 18 and 12 x 10 x 9 voxels."""
    sizes, task = (48, 40, 35), network(3)
    inputs = task.inputs(1, sizes, "float64")
    split = Layout.parse("rows:3,cols:2,planes:2", "x:rows,y:cols,z:planes")
    results = []
    for layout in (Layout.parse("", ""), split):
        options = {"layout": layout, "mesh_impl": "stacked"}
        program = mi.Program(training_step(task, Adam(0.003)), inputs, **options)
        losses = _steps(program, sizes, range(8), 1)
        held_out = HeldOutLoss(task, inputs, variables=program, **options)([batch(sizes, 1, 99)])
        predict = NetworkBuilder(task=task, dtype="float64", **options).network_of(program, sizes)
        results.append((losses, held_out, predict(batch(sizes, 1, 100)["image"][0])))
    for value, expected in zip(results[1], results[0], strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-9)


def test_a_level_of_a_network_may_have_fewer_voxels_than_slices():
    network = UNet3D(base_filters=2, depth=3, convs=1, norm="none", dropout_rate=0.0)
    inputs = {"image": "batch:1,x:16,y:16,z:8,channels:1"}
    split = from_partition_dims([1, 8, 2, 1, 1], dims="batch,x,y,z,channels")
    image = np.random.default_rng(0).standard_normal([1, 16, 16, 8, 1]).astype(np.float32)
    whole, sliced = (
        mi.Program(lambda image: network(image, is_training=False), inputs, *layout)(image=image)
        for layout in [("", ""), split]
    )
    np.testing.assert_allclose(sliced, whole, atol=1e-5)
