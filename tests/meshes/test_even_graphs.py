"""Even slices have no tails: their graphs have as many nodes as before uneven slices existed.

The numbers were recorded at commit 3a31588 with the version of TensorFlow below. A change that adds or removes nodes on
purpose records them again.
"""

import itertools

import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.training.optimizers import Adam
from mtf_imaging.training.step import training_step
from tests.ops.differentiated import ROWS
from tests.ops.test_second_derivatives import two_derivatives
from tests.upstream.test_equal_whole import OPS, SHAPE

RECORDED_WITH = "2.21"
CPUS = [f"CPU:{number}" for number in range(4)]

pytestmark = pytest.mark.skipif(
    not tf.__version__.startswith(f"{RECORDED_WITH}."),
    reason=f"the numbers were recorded with TensorFlow {RECORDED_WITH}",
)


@pytest.mark.parametrize(
    ("norm", "mesh_shape", "layout", "mesh_impl", "num_devices", "num_nodes"),
    [
        ("batch", "", "", "stacked", 1, 3480),
        ("batch", "rows:2,cols:2", "x:rows,y:cols", "stacked", 1, 4393),
        ("instance", "rows:2,cols:2,cores:2", "x:rows,y:cols,batch:cores", "stacked", 1, 4506),
        ("batch", "rows:2,cols:2", "x:rows,y:cols", "placement", 4, 15673),
        ("group", "rows:2,cores:2", "x:rows,batch:cores", "placement", 2, 8415),
    ],
)
def test_a_step_of_the_unet(norm, mesh_shape, layout, mesh_impl, num_devices, num_nodes):
    task = LiverTumorSegmentation(UNet3D(base_filters=2, depth=2, convs=1, norm=norm, norm_groups=2, dropout_rate=0.5))
    step, inputs = training_step(task, Adam(0.1)), task.inputs(2, (8, 8, 4))
    assert mi.Program(step, inputs, mesh_shape, layout, mesh_impl, CPUS[:num_devices]).num_nodes == num_nodes


@pytest.mark.parametrize(
    ("mesh_shape", "layout", "mesh_impl", "num_devices", "num_nodes"),
    [
        ("rows:2,cols:2", "x:rows,y:cols", "stacked", 1, 12122),
        ("m:2,spare:3,k:2", "channels:m,x:k", "placement", 2, 25090),
    ],
)
def test_operations_of_mesh_tensorflow(mesh_shape, layout, mesh_impl, num_devices, num_nodes):
    def fn(a, b):
        values = [op(a, b) for op in OPS.values()]
        gradients = [mi.mtf.gradients([mi.mtf.reduce_sum(mi.mtf.square(y))], [a, b]) for y in values]
        return [t for t in [*values, *itertools.chain(*gradients)] if t is not None]

    inputs = {"a": (SHAPE, "float64"), "b": (SHAPE, "float64")}
    assert mi.Program(fn, inputs, mesh_shape, layout, mesh_impl, CPUS[:num_devices]).num_nodes == num_nodes


@pytest.mark.slow
def test_second_derivatives_of_all_operations():
    def num_nodes(row):
        fn, inputs = two_derivatives(row)
        names = {name for shape, _ in inputs.values() for name, _ in mi.layout.parse_shape(shape)}
        layout = ",".join(f"{name}:{rule}" for name, rule in [("x", "rows"), ("y", "cols")] if name in names)
        return mi.Program(fn, inputs, "rows:2,cols:2", layout, "stacked").num_nodes

    assert sum(map(num_nodes, ROWS)) == 48851
