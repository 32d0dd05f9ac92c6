"""Gathering small slices of deep levels makes a layout faster, and does not change results."""

import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.engine.layout import Layout
from mtf_imaging.engine.meshes import ShardMeshImpl
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.training.micro_batches import MicroBatches, part_inputs
from mtf_imaging.training.optimizers import SGD
from mtf_imaging.training.step import training_step
from tests.models.programs import assert_close
from tests.models.test_unet3d import batch, build_program

SIZES = (24, 8, 4)  # (12, 4, 2) and (6, 2, 1) at the lower levels


def task(gather_below, depth=3, **kwargs):
    return LiverTumorSegmentation(
        UNet3D(base_filters=2, depth=depth, convs=1, gather_below=gather_below, **{"dropout_rate": 0.5, **kwargs})
    )


def values(program):
    moving = {name: v for name, v in program.variables.items() if "moving" in name}
    return {name: value.numpy() for name, value in {**program(**batch(SIZES)), **moving}.items()}


@pytest.fixture(scope="module")
def whole():
    """Loss, measures, gradients of all weights, and moving statistics, with dropout and batch norm."""
    return values(build_program(task(0), SIZES))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gather_below", "mesh_shape", "layout", "mesh_impl", "changes"),
    [
        # Nothing is gathered: at the lowest level, there are 6 voxels for 12 processors.
        (1, "rows:12", "x:rows", "stacked", []),
        # x is gathered before the pool, because a pool of 2 does not divide slices of 3 voxels.
        (3, "rows:8", "x:rows", "stacked", ["pool1_gather", "grow0_scatter"]),
        (2, "rows:12", "x:rows", "placement", ["pool1_gather", "grow0_scatter"]),
        # x, in slices of 3 voxels, is gathered before the pool; y, in slices of 2, after it. The decoder reverses the
        # order.
        (
            *(3, "rows:8,cols:4", "x:rows,y:cols", "stacked"),
            ["pool1_gather", "pool1_gather_1", "grow0_scatter", "grow0_scatter_1"],
        ),
        # One dimension is gathered from the first level on, the other from the second.
        (
            *(3, "rows:4,cols:4", "x:rows,y:cols", "placement"),
            ["pool1_gather", "pool2_gather", "grow1_scatter", "grow0_scatter"],
        ),
        # One dimension is gathered, the others never are.
        (2, "rows:2,cols:4,cores:2", "x:rows,y:cols,batch:cores", "stacked", ["pool1_gather", "grow0_scatter"]),
        (
            *(2, "rows:12,cols:2,planes:2", "x:rows,y:cols,z:planes", "stacked"),
            ["pool1_gather", "pool2_gather", "grow1_scatter", "grow0_scatter"],
        ),
        # Slices of 5 and 3 voxels, of which the last ones are shorter, and slices of 2 voxels before the pool.
        (2, "rows:5,cols:3", "x:rows,y:cols", "stacked", ["pool2_gather", "grow1_scatter"]),
        (9, "rows:2,cols:2", "x:rows,y:cols", "placement", ["pool1_gather", "grow0_scatter"]),
    ],
)
def test_values_and_all_gradients_equal_the_whole(gather_below, mesh_shape, layout, mesh_impl, changes, whole):
    program = build_program(task(gather_below), SIZES, mesh_shape, layout, mesh_impl=mesh_impl)
    assert [change.name.removeprefix("unet3d/") for change in program.changes] == changes
    assert_close(values(program), whole, 1e-9)


@pytest.mark.slow
def test_gathered_levels_with_recomputation(whole):
    program = build_program(task(3, recompute=True), SIZES, "rows:4,cols:4", "x:rows,y:cols", mesh_impl="stacked")
    assert len(program.changes) == 4, "changes of the backward pass do not count"
    assert_close(values(program), whole, 1e-9)


@pytest.mark.slow
def test_exchanges_of_a_step(monkeypatch):
    """A dimension is gathered twice: in the encoder, and for the gradient of the decoder."""
    counts, gather = [], ShardMeshImpl.gather
    monkeypatch.setattr(
        ShardMeshImpl, "gather", lambda self, x, dims: counts.append(len(dims)) or gather(self, x, dims)
    )
    build_program(task(3), SIZES, "rows:4,cols:4", "x:rows,y:cols", mesh_impl="stacked")
    assert [number for number in counts if number] == [1, 1, 1, 1]
    counts.clear()
    build_program(task(2), SIZES, "rows:12,cols:4", "x:rows,y:cols", mesh_impl="stacked")
    assert [number for number in counts if number] == [2, 2]


@pytest.mark.slow
def test_micro_batches_of_gathered_levels():
    rows = []
    for gather_below, layout in ((0, {}), (2, {"layout": Layout.parse("rows:12", "x:rows")})):
        network = task(gather_below, norm="none")
        inputs = part_inputs(network.inputs(2, SIZES, "float64"), 2)
        step = MicroBatches(network, SGD(0.1), inputs, 2, **layout)
        parts = [{name: value[i : i + 1] for name, value in batch(SIZES).items()} for i in range(2)]
        rows.append([float(value) for _ in range(2) for value in step(parts=parts).values()])
    np.testing.assert_allclose(*rows, rtol=1e-9)


@pytest.mark.slow
def test_prediction_under_another_layout():
    """Weights do not depend on the layout that they were trained under."""
    network, inputs = task(3), task(3).inputs(2, SIZES, "float64")
    trained = mi.Program(training_step(network, SGD(0.1)), inputs, "rows:12,cols:2", "x:rows,y:cols")
    trained(**batch(SIZES))
    image = batch(SIZES)["image"][:1]
    programs = [
        mi.Program(network.predict, network.inputs(1, SIZES, "float64", labels=False), *layout, variables=trained)
        for layout in ((), ("rows:4,planes:2", "x:rows,z:planes"))
    ]
    assert [len(program.changes) for program in programs] == [0, 4]
    np.testing.assert_allclose(*(program(image=image) for program in programs), rtol=1e-9)
