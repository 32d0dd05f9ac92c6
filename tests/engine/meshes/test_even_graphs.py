"""Equal slices have no tails: their graphs have as many nodes as without the masks of uneven slices."""

import itertools

import pytest

import mtf_imaging as mi
from mtf_imaging.engine.meshes import tails, whole
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.training.optimizers import Adam
from mtf_imaging.training.step import training_step
from tests.engine.ops.differentiated import ROWS
from tests.engine.ops.test_second_derivatives import two_derivatives
from tests.engine.upstream.test_equal_whole import OPS, SHAPE

CPUS = [f"CPU:{number}" for number in range(4)]


@pytest.fixture
def check_nodes(monkeypatch):
    """Returns a function that builds programs twice, the second time without masks and cuts of tails."""

    def check(build):
        num_nodes = build()
        with monkeypatch.context() as patch:
            patch.setattr(tails, "tails_of", lambda mesh, shape, names=None: [])
            patch.setattr(tails, "resize", lambda mesh, x, sizes: x)
            patch.setattr(whole, "_extended", lambda tensor, split, grid: tensor)
            assert build() == num_nodes

    return check


@pytest.mark.slow
@pytest.mark.parametrize(
    ("norm", "mesh_shape", "layout", "mesh_impl", "num_devices"),
    [
        ("batch", "", "", "stacked", 1),
        ("batch", "rows:2,cols:2", "x:rows,y:cols", "stacked", 1),
        ("instance", "rows:2,cols:2,cores:2", "x:rows,y:cols,batch:cores", "stacked", 1),
        ("batch", "rows:2,cols:2", "x:rows,y:cols", "placement", 4),
        ("group", "rows:2,cores:2", "x:rows,batch:cores", "placement", 2),
    ],
)
def test_a_step_of_the_unet(check_nodes, norm, mesh_shape, layout, mesh_impl, num_devices):
    task = LiverTumorSegmentation(UNet3D(base_filters=2, depth=2, convs=1, norm=norm, norm_groups=2, dropout_rate=0.5))
    step, inputs = training_step(task, Adam(0.1)), task.inputs(2, (8, 8, 4))
    check_nodes(lambda: mi.Program(step, inputs, mesh_shape, layout, mesh_impl, CPUS[:num_devices]).num_nodes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mesh_shape", "layout", "mesh_impl", "num_devices"),
    [
        ("rows:2,cols:2", "x:rows,y:cols", "stacked", 1),
        ("m:2,spare:3,k:2", "channels:m,x:k", "placement", 2),
    ],
)
def test_operations_of_mesh_tensorflow(check_nodes, mesh_shape, layout, mesh_impl, num_devices):
    def fn(a, b):
        values = [op(a, b) for op in OPS.values()]
        gradients = [mi.mtf.gradients([mi.mtf.reduce_sum(mi.mtf.square(y))], [a, b]) for y in values]
        return [t for t in [*values, *itertools.chain(*gradients)] if t is not None]

    inputs = {"a": (SHAPE, "float64"), "b": (SHAPE, "float64")}
    check_nodes(lambda: mi.Program(fn, inputs, mesh_shape, layout, mesh_impl, CPUS[:num_devices]).num_nodes)


@pytest.mark.slow
def test_second_derivatives_of_all_operations(check_nodes):
    def num_nodes(row):
        fn, inputs = two_derivatives(row)
        names = {name for shape, _ in inputs.values() for name, _ in mi.layout.parse_shape(shape)}
        layout = ",".join(f"{name}:{rule}" for name, rule in [("x", "rows"), ("y", "cols")] if name in names)
        return mi.Program(fn, inputs, "rows:2,cols:2", layout, "stacked").num_nodes

    check_nodes(lambda: [num_nodes(row) for row in ROWS])


def test_the_check_finds_masks(check_nodes):
    def num_nodes():
        return mi.Program(mi.mtf.reduce_max, {"x": "x:5,channels:8"}, "rows:2", "x:rows", "stacked").num_nodes

    with pytest.raises((AssertionError, mi.LayoutError)):
        check_nodes(num_nodes)
