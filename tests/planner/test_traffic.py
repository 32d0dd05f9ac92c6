"""Compares the planner's exchanges with the exchanges of a stacked mesh while the same step is lowered."""

import collections
import itertools
import math

import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.layout import parse_shape
from mtf_imaging.engine.layout.windows import Window
from mtf_imaging.engine.meshes import halo
from mtf_imaging.engine.meshes.exchange import Exchange
from mtf_imaging.engine.meshes.halo.gathering import Gather
from mtf_imaging.engine.meshes.halo.planning import plan
from mtf_imaging.engine.ops.over_batch import SecondPass, in_pass
from mtf_imaging.engine.ops.window_op import Geometry
from mtf_imaging.engine.program.tracing import trace_only
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.training.optimizers import Adam
from mtf_imaging.training.step import training_step
from tests.engine.exchanges import check_exchanges, modeled, stacked_mesh
from tests.engine.harness import pairwise
from tests.engine.ops.differentiated import ROWS
from tests.engine.ops.test_second_derivatives import operation_classes, two_derivatives
from tests.engine.upstream.test_selections import SHAPES as SELECTIONS
from tests.engine.upstream.test_selections import selections
from tests.planner.recorder import recorded

mtf = mi.mtf


def moved(fn, inputs, mesh_shape, layout):
    """Counts the exchanges that a stacked mesh makes, which are also those that it notes."""
    with recorded() as found:
        program = mi.Program(fn, inputs, mesh_shape, layout, "stacked")
    counts = collections.Counter(found)
    assert collections.Counter(program.mesh_impl.exchanged) == counts
    return counts


def unet(batch=2, sizes=(16, 16, 8), dtype="float32", task=None, **network):
    network = UNet3D(**{"base_filters": 2, "depth": 2, "convs": 2, **network})
    task = LiverTumorSegmentation(network, **(task or {}))
    return training_step(task, Adam(0.1)), task.inputs(batch, sizes, dtype)


UNETS = [
    ("rows:2", "x:rows", {}),
    ("rows:4", "y:rows", {}),
    ("planes:2", "z:planes", {}),
    ("rows:2,cols:2", "x:rows,y:cols", {}),
    ("rows:4,cols:2", "x:rows,y:cols", {"dtype": "bfloat16"}),
    ("rows:2,cols:2,planes:2", "x:rows,y:cols,z:planes", {}),
    ("cores:2", "batch:cores", {}),
    ("rows:2,cores:2", "x:rows,batch:cores", {"norm": "instance"}),
    ("rows:2,cols:2", "x:rows,y:cols", {"recompute": True}),
    ("rows:8,cols:2", "x:rows,y:cols", {"gather_below": 4}),
    ("rows:2,cores:2", "x:rows,batch:cores", {"norm": "group", "norm_groups": 2, "dtype": "float64"}),
    ("rows:2,cols:2", "x:rows,y:cols", {"depth": 3, "deep_supervision": 1}),
    ("rows:2,cols:2", "x:rows,y:cols", {"kernel_size": 5, "task": {"dice": "adaptive"}}),
    ("rows:3,cores:2", "x:rows,batch:cores", {"batch": 3, "sizes": (12, 8, 8)}),
    ("rows:5,cols:3", "x:rows,y:cols", {"recompute": True, "norm": "group", "norm_groups": 2}),
    ("rows:2,planes:2", "x:rows,z:planes", {"kernel_sizes": ((3, 3, 1), (3, 3, 3)), "pool_sizes": ((2, 2, 1),)}),
    ("rows:3,cols:2", "x:rows,y:cols", {"depth": 3, "pool_sizes": ((2, 1, 1), (1, 2, 2)), "residual": True}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("mesh_shape", "layout", "options"), UNETS, ids=lambda value: str(value).replace("'", ""))
def test_a_step_of_the_unet(mesh_shape, layout, options):
    fn, inputs = unet(**options)
    assert modeled(fn, inputs, mesh_shape, layout) == moved(fn, inputs, mesh_shape, layout)


def noted(fn, inputs, mesh_shape, layout, mesh_impl="stacked", devices=None):
    return collections.Counter(mi.Program(fn, inputs, mesh_shape, layout, mesh_impl, devices).mesh_impl.exchanged)


@pytest.mark.slow
@pytest.mark.parametrize("num_devices", [1, 4])
def test_a_mesh_notes_what_it_exchanges(num_devices):
    step, mesh = unet(), ("rows:2,cols:2", "x:rows,y:cols")
    devices = [f"CPU:{number}" for number in range(num_devices)]
    assert noted(*step, *mesh, "placement", devices) == modeled(*step, *mesh)


def _conv(image, kernel):
    y = mi.ops.conv3d(image, kernel, name="conv")
    return mtf.gradients([mtf.reduce_sum(mtf.square(y))], [image, kernel])


def _strided(image, kernel):
    y = mi.ops.conv3d(image, kernel, strides=2, padding="SAME")
    y = mi.ops.avg_pool3d(mi.ops.max_pool3d(y, 3, 1, "SAME"), 3, 1, "SAME")
    return mtf.gradients([mtf.reduce_sum(mtf.square(y))], [image, kernel])


def _dilated(image, kernel):
    y = mi.ops.conv3d(image, kernel, dilations=(3, 5, 1))  # past the next slice of y
    return mtf.gradients([mtf.reduce_sum(mtf.square(y))], [image, kernel])


def _explicit(image, kernel):
    y = mi.ops.conv3d(image, kernel, 1, [(7, -3), (0, 2), (1, -1)])
    y = mi.ops.avg_pool3d(
        mi.ops.max_pool3d(y, 3, 2, [(2, -1), (1, 0), (-1, 2)]), (2, 2, 1), 1, [(0, 1), (1, 0), (0, 0)]
    )
    y = mi.ops.conv3d_transpose(y, kernel, 2, [(4, 3), (0, 1), (0, -1)], dilations=(2, 1, 1))
    return mtf.gradients([mtf.reduce_sum(mtf.square(y))], [image, kernel])


def _resized(image, kernel):
    y = mi.ops.resize3d(mi.ops.conv3d(image, kernel), (24, 8, 8))
    return mtf.gradients([mtf.reduce_sum(mtf.square(y))], [image, kernel])


def _padded(image, kernel):
    y = mi.ops.pad(mi.ops.conv3d(image, kernel), [(4, 4), (8, 0), (0, 0)])
    y = mi.ops.resize3d(mi.ops.pad(y, [(0, 8), (4, 4), (1, 3)], "reflect"), (8, 48, 8), "nearest", align_corners=True)
    return mtf.gradients([mtf.reduce_sum(mtf.square(y))], [image, kernel])


def _reshaped(image, kernel):
    y = mi.ops.conv3d(image, kernel)
    batch, *spatial, out = y.shape.dims
    y = mtf.reshape(y, mtf.Shape([batch, mtf.Dimension("voxels", math.prod(d.size for d in spatial)), out]))
    return mtf.gradients([mtf.reduce_sum(mtf.square(y)) + mtf.reduce_max(y)], [image, kernel])


def _along_splits(image, kernel):
    """Applies operations of mesh_tensorflow along dimensions that the layouts below split."""
    x, channels = image.shape.dims[1], image.shape.dims[-1]
    y = mtf.slice(mtf.concat([image, image * 2], "x"), 4, 16, "x") + mtf.pad(mtf.split(image, x, 2)[1], [8, 0], "x")
    y = mtf.shift(y, 3, x, wrap=True) + mtf.shift(y, -5, x, wrap=False) + mtf.stack(mtf.unstack(y, x), "x", 1)
    values, indices = mtf.top_k(image, channels, mtf.Dimension("k", 1))
    values = mtf.reduce_sum(values * mtf.cast(indices, values.dtype))
    return mtf.gradients([mtf.reduce_sum(mtf.square(y)) * values], [image, kernel])[0]


def _of_other_shapes(image, kernel):
    scale = mtf.reduce_sum(
        mtf.reduce_sum(kernel, output_shape=mtf.Shape(kernel.shape.dims[-2:])), reduced_dim=kernel.shape.dims[-1]
    )
    y = mtf.maximum(mtf.cwise(lambda u, v: tf.sinh(u) * v, [image, scale]), scale)
    return mtf.gradients([mtf.reduce_sum(y)], [image, kernel])


def _sum_of_sums(image, kernel):
    return mi.ops.conv3d(image, kernel) + mi.ops.conv3d(image, kernel * 2), mtf.reduce_max(image)


FUNCTIONS = {
    fn.__name__: fn
    for fn in (
        *(_conv, _strided, _dilated, _explicit, _padded, _resized),
        *(_reshaped, _along_splits, _of_other_shapes, _sum_of_sums),
    )
}
LAYOUTS = [
    ("rows:2,cols:4", "x:rows,y:cols"),
    ("rows:2", "channels:rows"),
    ("rows:2,cols:2", "out:rows,z:cols"),
    ("rows:3,cols:5", "x:rows,y:cols"),
    ("rows:3,cols:2", "channels:rows,batch:cols"),
    ("rows:4,cols:3", "out:rows,z:cols"),
]


@pytest.mark.mostly_slow(fast=0.18)
@pytest.mark.parametrize(
    ("name", "split", "dtype"),
    pairwise(itertools.product(FUNCTIONS, LAYOUTS, ["float32", "bfloat16"])),  # every function under every layout
    ids=str,
)
def test_operations(name, split, dtype):
    fn, (mesh_shape, layout) = FUNCTIONS[name], split
    if fn is _of_other_shapes and mesh_shape in ("rows:3,cols:5", "rows:4,cols:3"):
        pytest.skip("a gradient would be a sum over uneven slices, which is refused")
    inputs = {
        "image": ("batch:2,x:16,y:16,z:8,channels:4", dtype),
        "kernel": ("fx:5,fy:3,fz:1,channels:4,out:6", dtype),
    }
    assert moved(fn, inputs, mesh_shape, layout) == modeled(fn, inputs, mesh_shape, layout)


@pytest.mark.parametrize(
    ("mesh_shape", "layout"), [("rows:2,cols:2", "x:rows,y:cols"), ("cores:2,model:4", "batch:cores,channels:model")]
)
def test_second_derivatives_and_norms_of_float64(mesh_shape, layout):
    def fn(image):
        y = mi.ops.max_pool2d(mi.ops.group_norm(image, 2), 3, 1, "SAME")
        (first,) = mtf.gradients([mtf.reduce_sum(mtf.square(y))], [image])
        return mtf.gradients([mtf.reduce_sum(mtf.square(first))], [image])

    inputs = {"image": ("batch:2,x:8,y:8,channels:8", "float64")}
    assert modeled(fn, inputs, mesh_shape, layout) == moved(fn, inputs, mesh_shape, layout)


@pytest.mark.parametrize(
    ("op", "mesh_shape", "layout"),
    [
        (mtf.Conv3dOperation, "rows:2,cols:2", "batch:rows,channels:cols"),
        (mtf.Conv3dOperation, "rows:2,cols:3", "channels:rows,out:cols"),
        (mtf.Conv3dTransposeOperation, "rows:2,cols:2", "batch:rows,channels:cols"),
    ],
)
def test_convolutions_of_mesh_tensorflow(op, mesh_shape, layout):
    def fn(image, kernel):
        if op is mtf.Conv3dTransposeOperation:
            kernel = mtf.transpose(kernel, mtf.Shape([*kernel.shape.dims[:3], *kernel.shape.dims[:2:-1]]))
        (y,) = op(image, kernel, (1, 1, 1, 1, 1), "SAME").outputs
        return mtf.gradients([mtf.reduce_sum(mtf.square(y))], [image, kernel])

    inputs = {"image": "batch:2,x:4,y:4,z:4,channels:4", "kernel": "fx:3,fy:1,fz:1,channels:4,out:6"}
    check_exchanges(mi.Program(fn, inputs, mesh_shape, layout, "stacked"), fn, inputs)


def _in_parts(x, whole):
    with in_pass(SecondPass([whole], 2)):
        y = mtf.square(mi.ops.over_batch(mtf.reduce_sum(x)))
    return mtf.gradients([y], [x])[0]


IN_PARTS = {"x": "batch:2", "whole": ""}


def test_a_sum_over_micro_batches():
    check_exchanges(mi.Program(_in_parts, IN_PARTS, "cores:2", "batch:cores", "stacked"), _in_parts, IN_PARTS)


def test_the_bytes_of_a_halo():
    inputs = {"x": "batch:2,x:8,channels:3", "f": "fx:5,channels:3,out:1"}
    found = modeled(lambda x, f: mi.ops.conv1d(x, f), inputs, "rows:2", "x:rows")
    assert found == {Exchange("halo", (0,), 2 * 2 * 3 * 4, distance): 1 for distance in (1, -1)}


def test_a_sum_that_is_read_and_added_to_another_sum():
    def fn(x):
        first, second = mtf.reduce_sum(x), mtf.reduce_sum(mtf.square(x))
        return (first + second) * 2.0, first * 3.0

    check_exchanges(mi.Program(fn, {"x": "x:4"}, "rows:2", "x:rows", "stacked"), fn, {"x": "x:4"})


def _chosen(scores, boxes):
    values, (chosen,) = mi.ops.top_k(scores, [boxes], 5)
    return values, chosen


CHOSEN = {"scores": "batch:2,x:7,y:5", "boxes": "batch:2,x:7,y:5,coords:4"}


@pytest.mark.parametrize("split", [("rows:2,cols:3", "x:rows,y:cols"), ("cores:2,cols:2", "batch:cores,y:cols")])
def test_the_choices_of_processors(split):
    assert moved(_chosen, CHOSEN, *split) == modeled(_chosen, CHOSEN, *split)


def test_every_operation_class_is_compared():
    """`test_second_derivatives` compares the classes of its rows under all of its layouts."""
    compared = {
        type(op)
        for fn, inputs in [(_in_parts, IN_PARTS), (_chosen, CHOSEN), (selections, SELECTIONS)]
        for op in trace_only(fn, inputs).needed
    }
    for row in ROWS:
        compared |= {type(op) for op in trace_only(*two_derivatives(row)).needed}
    bases = {base for cls in operation_classes() for base in cls.__bases__}
    missing = sorted(cls.__name__ for cls in operation_classes() - bases - compared)
    assert missing == [], (
        "no test compares their exchanges. Fix: add a row for each to tests/engine/ops/differentiated.py"
    )


@pytest.mark.parametrize("kernel", [(3, 3, 1), (5, 1, 3)])
def test_a_gather_from_one_stack_reads_what_processors_would_send(kernel):
    """Checks an interior processor; a processor at the border also gathers the outer margins of its neighbors."""
    mesh = stacked_mesh("rows:4,cols:3", "x:rows,y:cols")
    shape = mtf.convert_to_shape(list(parse_shape("batch:2,x:16,y:12,z:6,channels:16")))
    windows = tuple(Window(taps) for taps in kernel)
    margins = Geometry(("x", "y", "z"), (16, 12, 6), windows, 1).margins(mesh)
    slice_shape = mesh.slice_shape(shape)
    (step,) = plan(mesh.grid, tuple(margins), tuple(slice_shape), 4)
    assert isinstance(step, Gather)
    assert [m.dim for m in step.gathered] == [1, 2], "x and y are gathered, as rows of z and channels"
    lead = 3
    rows = step.rows([mesh.size, *slice_shape[:lead]], mesh.grid.local).numpy()
    interior = 1 * 3 + 1
    of_a_slice = math.prod(slice_shape[:lead])
    foreign = (rows[interior] // of_a_slice != interior).sum()
    assert rows[interior].max() < mesh.size * of_a_slice, "no row lies beyond the border"
    sent = sum(e.sent_by((1, 1), (4, 3)) for e in halo.exchanges(mesh, margins, slice_shape, 4))
    assert foreign * math.prod(slice_shape[lead:]) * 4 == sent > 0
