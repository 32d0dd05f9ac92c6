"""Grouped and depthwise convolutions: values and gradients equal one convolution per group, under every layout."""

import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.meshes.exchange import Exchange
from mtf_imaging.engine.ops.conv import grouped
from mtf_imaging.engine.program.tracing import trace_only
from tests.engine.exchanges import modeled, stacked_mesh
from tests.engine.harness import TOLERANCES, Case, assert_all_pairs, check, difference, pairwise
from tests.engine.ops import grouped_convolutions as by_group
from tests.engine.ops.grouped_convolutions import SIZES

mtf = mi.mtf


@dataclasses.dataclass(frozen=True)
class Setting:
    """The arguments of a grouped convolution of `channels` channels, with `channels * multiplier` outputs."""

    kernel: tuple
    groups: int
    channels: int = 4
    multiplier: int = 1
    strides: int | tuple = 1
    padding: str = "SAME"
    dilations: int | tuple = 1

    def __str__(self):
        kernel = "x".join(map(str, self.kernel))
        rest = f"strides {self.strides}, {self.padding}, dilations {self.dilations}"
        return f"{kernel}, {self.groups} groups of {self.channels} times {self.multiplier}, {rest}"

    @property
    def sizes(self):
        return list(SIZES.values())[: len(self.kernel)]

    def case(self, out="filters"):
        n, args = len(self.kernel), (self.strides, self.padding, self.dilations, self.groups)
        return Case(
            f"conv{n}d {self} to {out}",
            lambda x, f: getattr(mi.ops, f"conv{n}d")(x, f, *args),
            lambda x, f: by_group.reference(x, f, *args),
            by_group.shapes(n, self.kernel, self.channels, self.groups, self.multiplier, out),
        )


CUBE, PLANE = (3, 2, 3), (3, 2)
FEW = [
    Setting(CUBE, 2),
    Setting(CUBE, 4, multiplier=2),
    Setting((3, 3, 2), 2, strides=(2, 1, 2), padding="VALID"),
    Setting(PLANE, 2, dilations=2),
    Setting((3, 3), 4),
    Setting((3, 3), 4, strides=2),
    Setting(PLANE, 4, multiplier=2, strides=(2, 1)),
    Setting((2, 3), 4, padding="VALID", dilations=(2, 1)),
]


def _fits(setting):
    windows = by_group.windows_of(setting.kernel, setting.strides, setting.padding, setting.dilations)
    return all(w.output_size(n) for w, n in zip(windows, setting.sizes))


def _broad():
    """Yields settings with all combinations of groups, multipliers, strides, dilations and padding."""
    for kernel, groups, multiplier, strides, dilations, padding in itertools.product(
        [(3, 3), (1, 3), (3, 3, 3), (2, 1, 3)], [2, 3, 4, 12], [1, 2], [1, 2, 3], [1, 2], ["SAME", "VALID"]
    ):
        setting = Setting(kernel, groups, 12, multiplier, strides, padding, dilations)
        if _fits(setting):
            yield setting


def _arguments(row):
    """Returns the arguments of a setting, and the other columns of a row."""
    setting, *others = row
    return *dataclasses.astuple(setting), *others


def test_all_pairs_of_arguments_occur():
    for rows, table in ((LOCAL, LOCAL_TABLE), (SPLIT, SPLIT_TABLE)):
        assert_all_pairs(rows, table, _arguments)
    every = [{value for setting, *_ in rows for value in map(str, _arguments([setting]))} for rows in (LOCAL, SPLIT)]
    assert every == [{value for setting in BROAD for value in map(str, _arguments([setting]))}] * 2


BROAD = list(_broad())
LOCAL_TABLE = list(itertools.product(BROAD, TOLERANCES))
LOCAL = pairwise(LOCAL_TABLE, _arguments)


def _values(setting, dtype, sizes):
    """Returns x, f and weights of the outputs, rounded to `dtype`, and the results of `reference` in float64."""
    rng, case = np.random.default_rng(0), setting.case()
    x, f = [tf.cast(value, dtype) for value in case.values().values()]
    x = x[(slice(None), *map(slice, sizes))]
    x64, f64 = tf.cast(x, tf.float64), tf.cast(f, tf.float64)

    @tf.function(autograph=False)
    def run():
        with tf.GradientTape() as tape:
            tape.watch([x64, f64])
            y = case.reference(x64, f64)
            dy = tf.cast(tf.constant(rng.standard_normal(y.shape)), dtype)
            total = tf.reduce_sum(y * tf.cast(dy, tf.float64))
        return dy, y, *tape.gradient(total, [x64, f64])

    dy, *expected = run()
    return (x, f, dy), expected


def _check_local(setting, dtype, sizes=(None, None, None)):
    """Compares the functions of `grouped`, and those on the adjoint filter if that is the adjoint."""
    (x, f, dy), expected = _values(setting, dtype, sizes[: len(setting.kernel)])
    n = len(setting.kernel)
    strides, dilations = (list(by_group.per_dimension(v, n)) for v in (setting.strides, setting.dilations))
    padding = setting.padding
    if padding == "SAME" and any(s > (k - 1) * d + 1 for s, k, d in zip(strides, setting.kernel, dilations)):
        pytest.skip("the geometry pads these windows; TensorFlow's SAME is wrong in float64")

    @tf.function(autograph=False)
    def run():
        y = grouped.conv(x, f, strides, padding, dilations)
        dx = grouped.conv_input_grad(x.shape.as_list(), f, dy, strides, padding, dilations)
        df = grouped.conv_filter_grad(x, f.shape.as_list(), dy, strides, padding, dilations)
        if padding == "VALID" or max(strides) > 1 or not all(k % 2 for k in setting.kernel):
            return y, dx, df
        adjoint = grouped.adjoint_filter(f, setting.groups)
        by_voxels = grouped.conv_filter_grad(dy, adjoint.shape.as_list(), x, strides, padding, dilations)
        return (
            *(y, dx, df),
            grouped.conv(dy, adjoint, strides, padding, dilations),
            grouped.adjoint_filter(by_voxels, setting.groups),
        )

    results = [tf.cast(value, tf.float64) for value in run()]
    wanted = [value.numpy() for value in (*expected, *expected[1:])]
    worst = [difference(value, want) for value, want in zip(results, wanted)]
    assert max(worst) <= TOLERANCES[dtype], f"y, dx, df and their adjoint forms differ by {worst}"


@pytest.mark.mostly_slow(fast=0.4)
@pytest.mark.parametrize("dtype", list(TOLERANCES))
@pytest.mark.parametrize("setting", FEW, ids=str)
def test_local_kernels_equal_one_convolution_per_group(setting, dtype):
    _check_local(setting, dtype)


@pytest.mark.parametrize("padding", ["VALID", "SAME"])
@pytest.mark.parametrize("strides", [2, (1, 3)])
@pytest.mark.parametrize("multiplier", [1, 2])
def test_a_single_window_along_the_last_dimension(multiplier, strides, padding):
    """TensorFlow's Conv2D (2.21) is wrong in bfloat16 for unequal strides and two outputs per channel."""
    setting = Setting((2, 3), 4, multiplier=multiplier, strides=strides, padding=padding)
    _check_local(setting, "bfloat16", [5, 3] if padding == "VALID" else [5, 2])


@pytest.mark.slow
@pytest.mark.parametrize(("setting", "dtype"), LOCAL, ids=str)
def test_all_local_kernels_equal_one_convolution_per_group(setting, dtype):
    _check_local(setting, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_graph_of_a_depthwise_convolution_does_not_grow_with_the_channels(dtype):
    """Depthwise convolutions have up to hundreds of channels."""

    def num_nodes(channels):
        def step(x, f):
            y = mi.ops.conv3d(x, f, strides=(1, 2, 1), groups=channels)
            return y, *mtf.gradients([mtf.reduce_sum(mtf.square(y))], [x, f])

        shapes = by_group.shapes(3, CUBE, channels, channels, 1)
        return mi.Program(step, {name: (shape, dtype) for name, shape in shapes.items()}).num_nodes

    assert num_nodes(32) == num_nodes(4)


def test_an_infinite_voxel_affects_only_its_group():
    image = np.ones([1, 6, 6, 6, 4], np.float32)
    image[0, 3, 3, 3, 1] = np.inf
    inputs = {"x": "batch:1,x:6,y:6,z:6,channels:4", "f": "fx:3,fy:3,fz:3,per_group:2,filters:4"}
    y = mi.Program(lambda x, f: mi.ops.conv3d(x, f, groups=2), inputs)(x=image, f=np.ones([3, 3, 3, 2, 4]))
    assert [int((~np.isfinite(y.numpy()[..., o])).sum()) for o in range(4)] == [27, 27, 0, 0]


SPLITS = [
    ("rows:2,cols:2", "x:rows,y:cols"),
    ("rows:2,model:2", "x:rows,channels:model,filters:model"),
    ("cores:2,model:2", "batch:cores,filters:model"),
    ("model:2,rows:2", "y:rows,channels:model"),
    ("model:2,rows:2,filter_model:2", "x:rows,channels:model,filters:filter_model"),
]
UNEVEN = [
    ("rows:5,cols:3", "x:rows,y:cols"),
    ("rows:5,model:2", "x:rows,channels:model,filters:model"),
    ("cores:3,model:3", "batch:cores,filters:model"),  # groups are cut
    ("rows:7,model:3,filter_model:2", "y:rows,channels:model,filters:filter_model"),
]
IMPLS = ["stacked", "placement"]


def _few_splits():
    """Yields every split of channels for a grouped and a depthwise convolution, and spatial splits for the others."""
    for setting, splits in [
        (FEW[0], SPLITS),
        (FEW[1], SPLITS[1:]),
        (FEW[3], SPLITS[:2]),
        (FEW[5], SPLITS[:2]),
        (FEW[2], UNEVEN[:2]),
        (FEW[6], UNEVEN[2:]),
    ]:
        for mesh, layout in splits:
            yield pytest.param(setting, mesh, layout, id=f"{setting}-{layout}")


@pytest.mark.mostly_slow(fast=0.25)
@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize(("setting", "mesh", "layout"), list(_few_splits()))
def test_equals_the_whole(setting, mesh, layout, impl):
    check(setting.case(), "float32", mesh, layout, impl)


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("multiplier", [1, 2])
def test_input_and_output_channels_of_one_name(multiplier, impl):
    setting = Setting(CUBE, 4, multiplier=multiplier)
    check(setting.case(out="channels"), "float32", "rows:2,model:4", "x:rows,channels:model", impl)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
@pytest.mark.parametrize(("mesh", "layout"), [SPLITS[1], SPLITS[4]])
def test_equals_the_whole_in_other_dtypes(dtype, mesh, layout):
    check(Setting(CUBE, 2).case(), dtype, mesh, layout, "stacked")
    check(Setting(PLANE, 4, strides=(2, 1)).case(), dtype, mesh, layout, "stacked")


BROAD_SPLITS = [
    *SPLITS,
    *UNEVEN,
    ("rows:2,cols:2,planes:2", "x:rows,y:cols,z:planes"),
    ("cores:2,rows:3", "batch:cores,x:rows"),
    ("model:3,rows:2", "channels:model,filters:model,y:rows"),
    ("model:12", "channels:model,filters:model"),
    ("model:4,filter_model:3", "channels:model,filters:filter_model"),
    ("model:4,filter_model:2,rows:2", "channels:model,filters:filter_model,x:rows"),
    ("model:2,rows:4", "filters:model,x:rows"),
]


# Every seventh combination of arguments: no argument has a period of 7.
SPLIT_TABLE = [
    row for row in itertools.product(BROAD[::7], BROAD_SPLITS, IMPLS, TOLERANCES) if row[0].case().allows(row[1][1])
]
SPLIT = pairwise(SPLIT_TABLE, _arguments)


@pytest.mark.slow
@pytest.mark.parametrize(("setting", "split", "impl", "dtype"), SPLIT, ids=str)
def test_equals_the_whole_under_every_layout(setting, split, impl, dtype):
    check(setting.case(), dtype, *split, impl)


# What is sent.

INPUTS = {"x": "batch:2,x:4,y:4,z:4,channels:8", "f": "fx:3,fy:3,fz:3,per_group:2,filters:16"}
X, Y, DF = (2 * 4**3 * 8 * 4, 2 * 4**3 * 16 * 4, 27 * 2 * 16 * 4)  # bytes


def _both(x, f):
    y = mi.ops.conv3d(x, f, groups=4)
    return y, *mtf.gradients([mtf.reduce_sum(mtf.square(y))], [x, f])


@pytest.mark.parametrize(
    ("mesh", "layout", "gathers"),
    [
        ("a:2", "channels:a,filters:a", []),
        ("a:2", "filters:a", [(0, X // 2)]),  # dx
        ("a:2", "channels:a", [(0, Y // 2), (0, DF // 2)]),
        ("a:2,b:4", "channels:a,filters:b", [(0, X // 2), (0, X // 2), (1, X // 4)]),  # x twice, dx
    ],
)
def test_gathers(mesh, layout, gathers):
    """`check` compares the exchanges of every case with those of its lowering."""
    counts = modeled(_both, INPUTS, mesh, layout)
    sent = [exchange for exchange in counts.elements() if exchange.kind == "gather"]
    assert sorted(sent, key=str) == sorted((Exchange("gather", (axis,), n) for axis, n in gathers), key=str)


@pytest.mark.parametrize(
    ("mesh", "layout", "parts"),
    [("", "", 1), ("a:2", "filters:a", 2), ("a:4", "channels:a", 4), ("a:4,b:2", "channels:a,filters:b", 2)],
)
def test_a_processor_computes_its_share_of_the_groups(mesh, layout, parts):
    ops = [op for op in trace_only(_both, INPUTS).needed if hasattr(op, "flops")]
    assert [type(op).__name__ for op in ops] == ["Conv", "ConvInputGrad", "ConvFilterGrad"]
    taps_and_channels, windows = 27 * 2 * 16, 2 * 4**3
    assert [op.flops(stacked_mesh(mesh, layout)) for op in ops] == [2 * taps_and_channels * windows // parts] * 3


# What is refused.


def _conv(groups, **shapes):
    inputs = {"x": "batch:2,x:8,y:8,z:4,channels:8", "f": "fx:3,fy:3,fz:3,per_group:4,filters:16", **shapes}
    return lambda mesh="", layout="": mi.Program(
        lambda x, f: mi.ops.conv3d(x, f, groups=groups, name="stem"), inputs, mesh, layout
    )


@pytest.mark.parametrize(
    ("groups", "filter_shape", "message"),
    [
        (0, "per_group:4,filters:16", "groups must be a positive int, not 0"),
        (2.0, "per_group:4,filters:16", "groups must be a positive int, not 2.0"),
        (True, "per_group:4,filters:16", "groups must be a positive int, not True"),
        (
            3,
            "per_group:4,filters:16",
            "groups=3 does not divide the input's channels, 'channels' (size 8). "
            "Fix: use a number of groups that divides both the input channels and the output channels.",
        ),
        (
            2,
            "per_group:4,filters:15",
            "groups=2 does not divide the filter's last dimension, 'filters' (size 15). "
            "Fix: use a number of groups that divides both the input channels and the output channels.",
        ),
        (
            4,
            "per_group:4,filters:16",
            "the filter's dimension -2, 'per_group' (size 4), must have size 2: the input's channels, 'channels' "
            "(size 8), divided by groups=4",
        ),
        (
            2,
            "channels:4,filters:16",
            "the filter's dimension -2 (size 4) must not have the name of the input's channels, 'channels' (size 8), "
            "because the sizes differ. Fix: rename it, for example to 'channels_per_group'.",
        ),
    ],
)
def test_messages(groups, filter_shape, message):
    with pytest.raises(mi.ShapeError) as error:
        _conv(groups, f=f"fx:3,fy:3,fz:3,{filter_shape}")()
    assert str(error.value) == f"conv3d 'stem': {message}"


@pytest.mark.parametrize(
    ("mesh", "layout", "faults"),
    [
        (
            "cols:2",
            "per_group:cols",
            [
                "cannot split 'per_group' (size 4) over 'cols' (size 2): it is the input of each of 2 groups. "
                "Fix: drop 'per_group:cols', or give the filter's input dimension another name."
            ],
        ),
        (
            "rows:3",
            "fx:rows",
            [
                "cannot split 'fx' (size 3) over 'rows' (size 3): it is a kernel dimension of the filter. "
                "Fix: drop 'fx:rows'."
            ],
        ),
    ],
)
def test_illegal_splits(mesh, layout, faults):
    with pytest.raises(mi.LayoutError) as error:
        _conv(2)(mesh, layout)
    assert str(error.value).splitlines()[1:] == [f"  conv3d 'stem': {fault}" for fault in faults]
