"""All operations x layouts on a mesh of several processes: values and gradients equal TensorFlow's on whole tensors."""

import math

import pytest
from hypothesis import assume, given, settings

from mtf_imaging.engine.layout import Layout, parse_layout, parse_shape
from mtf_imaging.engine.meshes.grid import ShardGrid
from tests.between import checks
from tests.engine.harness import sample
from tests.engine.ops.test_ops_equal_whole import LAYOUTS, UNEVEN
from tests.engine.ops.test_uneven_windows import FEW, TABLE, any_settings

# Meshes with several processors per process, some of them with uneven or empty slices.
SEVERAL = [
    ("rows:4,cols:4", "x:rows,y:cols"),
    ("rows:10", "x:rows"),
    ("rows:6", "x:rows"),
    ("planes:8,cols:4", "z:planes,y:cols"),
    ("rows:6,model:4", "x:rows,channels:model"),
]
NO_FLOAT64 = ("max_pool3d", "avg_pool3d", "resize2d linear")


def _fits(mesh_shape, num):
    """Returns whether a mesh can be divided among `num` processes."""
    sizes = [size for _, size in parse_shape(mesh_shape)]
    shards = ShardGrid.make(sizes, num).num_shards
    return shards == num or (shards == math.prod(sizes) and num % shards == 0)


def _table():
    """Returns all operations x layouts x numbers of processes, as parameters with ids."""
    splits = [
        (num, mesh, layout)
        for num in (4, 2, 3, 5, 8)
        for mesh, layout in LAYOUTS + UNEVEN + SEVERAL
        if _fits(mesh, num) and (num == 4 or math.prod(n for _, n in parse_shape(mesh)) >= num)
    ]
    return [
        pytest.param(num, name, mesh, layout, id=f"{num} processes-{name}-{mesh}-{layout}")
        for num, mesh, layout in splits
        for name, case in checks.CASES.items()
        if case.allows(layout)
    ]


_FEW = [
    (4, "conv3d strides 2, 1, 3", "rows:2,cols:2", "x:rows,y:cols"),
    (4, "conv3d halo of several slices", "cores:2,rows:12", "x:rows"),
    (4, "conv3d dilations 2, 1, 3", "rows:4,cols:4", "x:rows,y:cols"),
    (4, "conv3d 3^3", "model:2,rows:2,filter_model:2", "x:rows,channels:model,filters:filter_model"),
    (4, "conv3d of 2 groups, padded", "rows:2,model:2", "y:rows,filters:model"),
    (4, "conv3d_transpose odd output sizes", "rows:2,cols:2", "x:rows,y:cols"),
    (4, "max_pool3d overlapping ties", "planes:8,cols:4", "z:planes,y:cols"),
    (4, "avg_pool3d overlapping", "rows:2,cols:2", "batch:rows,z:cols"),
    (4, "resize3d other ratios", "rows:4,cols:2", "y:rows,x:cols"),
    (4, "batch_norm", "rows:2", "x:rows"),
    (4, "group_norm", "rows:2,model:2", "x:rows,channels:model"),
    (4, "weighted_cross_entropy", "rows:2,cols:2", "x:rows,y:cols"),
    (4, "dice_loss", "rows:2,cols:2,planes:2", "x:rows,y:cols,z:planes"),
    (4, "roi_align of three levels", "rows:2,cols:2", "height:rows,width:cols"),
    (4, "roi_align of one level", "rows:8,cols:4", "height:rows,width:cols,rois_whole:rows"),
    (4, "roi_align in float32", "rows:2,cols:2", "height:rows,rois_whole:cols"),
]


def _check(group, name, mesh, layout):
    """Checks every second operation in float64."""
    dtype = "float32" if name.startswith(NO_FLOAT64) or len(name) % 2 else "float64"
    group.run(checks.check_operation, name, dtype, mesh, layout)


@pytest.mark.parametrize(("num", "name", "mesh", "layout"), _FEW)
def test_equals_the_whole(groups, num, name, mesh, layout):
    _check(groups.get(num), name, mesh, layout)


@pytest.mark.slow
@pytest.mark.parametrize(("num", "name", "mesh", "layout"), sample(_table(), 1 / 250))
def test_many_layouts_equal_the_whole(groups, num, name, mesh, layout):
    _check(groups.get(num), name, mesh, layout)


_IN_TURNS = [
    (2, "conv3d strides 2, 1, 3", "slabs:3,rows:2", "x:slabs,y:rows"),
    (2, "conv3d halo of several slices", "slabs:2,rows:12", "y:slabs,x:rows"),
    (2, "conv3d_transpose odd output sizes", "slabs:3,rows:2", "y:slabs,x:rows"),
    (2, "max_pool3d overlapping ties", "slabs:2,cols:2,planes:3", "z:slabs,y:cols,x:planes"),
    (2, "group_norm", "slabs:2,model:2", "x:slabs,channels:model"),
    (2, "dice_loss", "slabs:3,rows:2", "x:slabs,y:rows"),
    (2, "roi_align of three levels", "slabs:2,cols:2", "height:slabs,width:cols"),
    (4, "batch_norm", "slabs:3,rows:4", "y:slabs,x:rows"),
]
_IN_TURNS_FEW = ("conv3d halo of several slices", "conv3d_transpose odd output sizes", "batch_norm")


@pytest.mark.parametrize(
    ("num", "name", "mesh", "layout"),
    [pytest.param(*row, marks=[] if row[1] in _IN_TURNS_FEW else [pytest.mark.slow]) for row in _IN_TURNS],
)
def test_in_turns(groups, num, name, mesh, layout):
    group, dtype = groups.get(num), "float32" if name.startswith(NO_FLOAT64) else "float64"
    group.run(checks.check_operation, name, dtype, mesh, layout, "collective, half in turns")


def test_bfloat16(groups):
    for name in ("conv3d 3^3", "batch_norm"):
        groups.get(4).run(checks.check_operation, name, "bfloat16", "rows:4,cols:3", "x:rows,y:cols")


@pytest.mark.parametrize(
    ("names", "mesh", "layout"),
    [
        ("xy", "rows:2,cols:2", "x:rows,y:cols"),
        pytest.param("x", "rows:4", "x:rows", marks=pytest.mark.slow),
        pytest.param("x", "rows:2,cols:2", "x:rows,x_whole:cols", marks=pytest.mark.slow),
        pytest.param("xyz", "planes:4,rows:2,cols:1", "x:rows,y:cols,z:planes", marks=pytest.mark.slow),
        pytest.param(
            *("xyz", "", Layout.parse("planes:3,rows:4,cols:2", "x:rows,y:cols,z:planes", "planes,cols")),
            id="xyz in turns",
        ),
    ],
)
def test_gathered_dimensions(groups, names, mesh, layout):
    groups.get(4).run(checks.check_resharded, names, mesh, layout)


@pytest.mark.parametrize(
    ("k", "mesh", "layout"),
    [
        (9, "rows:2,cols:2", "x:rows,y:cols"),
        pytest.param(100, "rows:8,cols:4", "x:rows,y:cols,top:cols", marks=pytest.mark.slow),
        pytest.param(5, "cores:4,model:2", "batch:cores,anchors:model", marks=pytest.mark.slow),
    ],
)
def test_the_highest_scores(groups, k, mesh, layout):
    groups.get(4).run(checks.check_top_k, k, mesh, layout)


def _derived():
    """Yields a row of each operation under one layout, and the fast rows."""
    some = {*{row.op: name for name, row in checks.ROWS.items()}.values(), *_DERIVED_FEW}
    for number, (name, row) in enumerate((name, checks.ROWS[name]) for name in checks.ROWS if name in some):
        dims = {dim for shape in row.shapes.values() for dim, _ in parse_shape(shape)}
        mesh, layout = _DERIVED[number % len(_DERIVED)]
        layout = ",".join(f"{dim}:{onto}" for dim, onto in parse_layout(layout) if dim in dims)
        yield pytest.param(name, mesh, layout, marks=[] if name in _DERIVED_FEW else [pytest.mark.slow])


_DERIVED = [
    ("", ""),
    ("rows:2,cols:2", "x:rows,y:cols"),
    ("cores:2,model:2", "batch:cores,channels:model"),
    ("model:2,filters:2", "channels:model,out:filters"),
    ("rows:8", "x:rows"),
]
_DERIVED_FEW = ("conv2d with strides", "instance_norm")


@pytest.mark.parametrize(("name", "mesh", "layout"), list(_derived()))
def test_second_derivatives(groups, name, mesh, layout):
    groups.get(4).run(checks.check_second_derivatives, name, mesh, layout)


def _number(setting):
    """Returns the number of processes, 4, 3 or 2, among which a mesh can be divided; 0 if there is none."""
    return next((num for num in (4, 3, 2) if setting.layout[0] and _fits(setting.layout[0], num)), 0)


@pytest.mark.slow
@pytest.mark.parametrize("setting", sorted((s for s in FEW + TABLE[::5] if _number(s)), key=_number), ids=str)
def test_uneven_windows(groups, setting):
    groups.get(_number(setting)).run(checks.check_setting, setting, "float32")


def _check_any(groups, setting):
    assume(_number(setting) == 4)
    groups.get(4).run(checks.check_setting, setting, "float32")


@settings(max_examples=6)
@given(any_settings())
def test_any_setting(groups, setting):
    _check_any(groups, setting)


@pytest.mark.slow
@settings(max_examples=15)
@given(any_settings())
def test_many_settings(groups, setting):
    _check_any(groups, setting)


@pytest.mark.slow
@pytest.mark.parametrize(("num", "processors", "dtype"), [(2, 6, "float16"), (3, 3, "bfloat16")])
def test_sums_in_16_bits_are_rounded_once(groups, num, processors, dtype):
    groups.get(num).run(checks.check_sums, dtype, processors)
