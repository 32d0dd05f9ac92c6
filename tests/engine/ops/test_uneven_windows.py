"""Windows, resizes and padding of any size over any number of processors equal TensorFlow's on the whole tensor.

Slices are uneven, and the last ones may be empty: 5 voxels over 4 processors are slices of 2, 2, 1 and 0 voxels.
"""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import mtf_imaging as mi
from tests import poison
from tests.engine.harness import assert_all_pairs, check, pairwise
from tests.engine.ops.windows_of_any_size import PADS, RESIZES, Line, Setting, devices

mtf = mi.mtf
KINDS = ("conv", "conv_transpose", "max_pool", "avg_pool")
IMPLS = ("stacked", "placement")


def _check(setting, dtype="float32", mesh_impl="stacked", most=8):
    mesh_shape, layout = setting.layout
    check(setting.case(), dtype, mesh_shape, layout, mesh_impl, devices(mesh_shape, most))


def _same(op, *lines, **options):
    return Setting(op, tuple(Line(*line) for line in lines), **options)


FEW = [
    _same("conv", (5, 4, 3)),  # slices of 2, 2, 1 and 0 voxels
    _same("conv", (5, 3, 3), (7, 2, 2), batch=3, cores=2),
    _same("conv", (7, 3, 3, 2), (4, 3, 3), (3, 2, 3)),
    _same("conv", (11, 3, 3), (5, 2, 3), channels=3, model=2, filters=3, filter_model=2),
    _same("conv", (13, 3, 3, 1, 2), padding="VALID"),
    _same("conv_transpose", (13, 4, 3, 2), (5, 2, 2, 2)),
    _same("max_pool", (7, 3, 2, 2), (5, 2, 3, 2)),
    _same("max_pool", (9, 4, 3, 1), (4, 3, 2, 2), (3, 1)),
    _same("avg_pool", (9, 4, 3, 1), (7, 2, 2, 2)),
    Setting("linear", (Line(7, 4, output=10), Line(5, 2, output=3))),
    Setting("nearest", (Line(9, 4, output=5),)),
    Setting("constant", (Line(5, 3, pads=(2, 1)), Line(4, 3, pads=(0, 5)))),
    Setting("reflect", (Line(5, 4, pads=(3, 4)),)),
]
TABLE = [
    # Halos of several slices, also of empty ones.
    _same("conv", (5, 4, 5)),
    _same("conv", (5, 7, 3)),
    _same("conv", (5, 7, 7)),
    _same("conv", (7, 5, 3, 1, 2)),
    _same("conv", (24, 7, 7, 1, 3)),
    _same("conv", (1, 4, 3)),
    _same("conv", (2, 7, 4)),
    _same("conv", (9, 7, 7), (5, 2, 5)),
    _same("conv_transpose", (5, 7, 7)),
    _same("conv_transpose", (6, 4, 5, 2)),
    _same("max_pool", (5, 7, 3)),
    _same("avg_pool", (5, 4, 5)),
    # Strides, also above the kernel, so that the slices of input and output drift apart.
    _same("conv", (23, 4, 3, 3)),
    _same("conv", (17, 5, 2, 4)),
    _same("conv", (24, 5, 1, 2)),
    _same("conv", (13, 4, 3, 2), (9, 3, 2, 3), (5, 2, 1, 2)),
    _same("conv", (13, 4, 5, 2, 2), padding="VALID"),
    _same("conv_transpose", (23, 4, 3, 3)),
    _same("conv_transpose", (17, 5, 2, 4)),
    _same("conv_transpose", (11, 3, 4, 2), (9, 3, 2, 3), (5, 2, 1, 2)),
    _same("conv_transpose", (19, 4, 5, 2, 2), padding="VALID"),
    _same("max_pool", (23, 4, 2, 4)),
    _same("max_pool", (13, 5, 3, 2), (7, 3, 2, 2), (5, 2, 2, 1)),
    _same("max_pool", (13, 5, 4, 3), padding="VALID"),
    _same("avg_pool", (23, 4, 2, 4)),
    _same("avg_pool", (13, 5, 3, 2), (7, 3, 2, 2), (5, 2, 2, 1)),
    _same("avg_pool", (13, 5, 4, 3), padding="VALID"),
    # Explicit padding: unequal, larger than the kernel, and negative.
    Setting("conv", (Line(7, 3, 3, pads=(2, 0)), Line(5, 2, 3, pads=(0, 3))), "explicit"),
    Setting("conv", (Line(7, 4, 2, 2, pads=(5, 6)), Line(5, 3, 3, pads=(8, 1))), "explicit"),
    Setting("conv", (Line(11, 4, 3, pads=(-3, 1)), Line(9, 4, 2, 3, pads=(-1, -2))), "explicit"),
    Setting("conv", (Line(13, 5, 1, pads=(7, -7)),), "explicit"),
    Setting("conv_transpose", (Line(11, 4, 3, 2, pads=(1, 0)), Line(7, 3, 2, 1, 2, (2, -1))), "explicit"),
    Setting("conv_transpose", (Line(9, 4, 2, 3, pads=(-1, -2)),), "explicit"),
    Setting("max_pool", (Line(11, 4, 3, 2, pads=(1, 2)), Line(7, 3, 2, pads=(-2, 1))), "explicit"),
    Setting("avg_pool", (Line(11, 4, 3, 2, pads=(1, 2)), Line(7, 3, 2, pads=(-2, 1))), "explicit"),
    # Groups.
    _same("conv", (7, 3, 3), (5, 2, 3), groups=2, channels=4, filters=4),
    _same("conv", (7, 3, 3), (5, 2, 3, 2), groups=4, channels=4, filters=8, model=2),
    _same("conv", (7, 4, 3, 2), (5, 2, 3), (3, 2), groups=3, channels=3, filters=3),
    _same("conv", (7, 4, 3), (4, 3), (3, 1, 2), groups=2, channels=4, filters=2, filter_model=2),
    _same("conv", (5, 2, 3), (4, 1, 3), groups=3, channels=6, filters=3, model=2),  # slices that cut groups
    _same("conv", (5, 2, 3), (4, 1, 3), groups=2, channels=4, filters=6, model=3, filter_model=4),
    _same("conv", (5, 2, 3), (4, 1, 3), groups=5, channels=5, filters=5, filter_model=3),
    # Batch and channels.
    _same("conv", (4, 2, 3), batch=5, cores=4),
    _same("conv", (5, 2, 3), batch=1, cores=3),
    _same("conv", (5, 2, 3), channels=3, model=2),
    _same("conv", (5, 2, 3), channels=5, model=4),
    _same("conv", (5, 2, 3), filters=3, filter_model=2),
    _same("conv", (4, 2, 3), channels=3, model=2, filters=5, filter_model=4),
    _same("conv", (5, 3, 3, 2), batch=3, cores=2, channels=3, model=2, filters=3, filter_model=2),
    _same("conv_transpose", (5, 3, 3, 2), batch=3, cores=2, channels=3, model=2, filters=3, filter_model=2),
    _same("max_pool", (5, 3, 3, 2), batch=3, cores=2, channels=3, model=2),
    _same("avg_pool", (5, 3, 3, 2), batch=3, cores=2, channels=3, model=2),
    Setting("linear", (Line(5, 3, output=9),), batch=3, cores=2, channels=3, model=2),
    Setting("symmetric", (Line(5, 3, pads=(1, 4)),), batch=3, cores=2, channels=3, model=2),
    # Resizes and padding.
    *(Setting(op, (Line(7, 4, output=17), Line(5, 3, output=2))) for op in RESIZES),
    *(Setting(op, (Line(3, 5, output=11), Line(9, 2, output=9), Line(4, 3, output=5))) for op in RESIZES),
    *(Setting(op, (Line(7, 4, pads=(6, 1)), Line(5, 3, pads=(0, 3)))) for op in PADS),
    *(Setting(op, (Line(4, 3, pads=(0, 3)), Line(5, 4, pads=(4, 2)), Line(3, 2, pads=(1, 1)))) for op in PADS),
]


def _of_one_dimension():
    """Yields every combination of the arguments of an operation along one dimension, about 60,000."""
    paddings = ["SAME", "VALID", (0, 3), (2, -1), (-2, 1), (9, 8), (1, 1)]
    sizes, parts = [1, 2, 3, 5, 7, 10, 17, 24], [2, 3, 4, 5, 7]
    numbers = itertools.product(range(1, 8), range(1, 5), range(1, 5))
    for (kernel, stride, dilation), kind, padding, size, n in itertools.product(numbers, KINDS, paddings, sizes, parts):
        if dilation > 1 and (kind.endswith("pool") or kernel == 1):
            continue
        named = isinstance(padding, str)
        line = Line(size, n, kernel, stride, dilation, (0, 0) if named else padding)
        setting = Setting(kind, (line,), padding if named else "explicit", channels=1)
        if setting.is_legal:
            yield setting


def _arguments(setting):
    line = setting.lines[0]
    return setting.op, setting.padding, line.pads, line.size, line.parts, line.kernel, line.stride, line.dilation


# No argument has this prime as a period, so every value of every argument occurs.
BROAD_TABLE = list(_of_one_dimension())
BROAD = BROAD_TABLE[::1009]


def test_every_value_of_every_argument_occurs():
    some, every = ([set(values) for values in zip(*map(_arguments, rows))] for rows in (BROAD, BROAD_TABLE))
    assert some == every


def _alternating(rows, options=IMPLS):
    """Returns each setting with one of some options, and every operation with every option."""
    rows = [(setting, option) for setting in rows for option in options]
    pairs = pairwise(rows, _of_an_operation)
    covered = {setting for setting, _ in pairs}
    rest = [setting for setting, option in rows if setting not in covered and option == options[0]]
    kept = pairs + [(setting, options[number % len(options)]) for number, setting in enumerate(rest)]
    assert_all_pairs(kept, rows, _of_an_operation)
    return kept


def _of_an_operation(row):
    setting, option = row
    return setting.op, len(setting.lines), option


@pytest.mark.mostly_slow(fast=0.3)
@pytest.mark.parametrize("mesh_impl", IMPLS)
@pytest.mark.parametrize("setting", FEW, ids=str)
def test_equals_the_whole(setting, mesh_impl):
    _check(setting, mesh_impl=mesh_impl)


@pytest.mark.slow
@pytest.mark.parametrize(("setting", "mesh_impl"), _alternating(TABLE), ids=str)
def test_the_table_equals_the_whole(setting, mesh_impl):
    _check(setting, mesh_impl=mesh_impl)


_POOLS = [s for s in FEW + TABLE + BROAD[::5] if s.op == "max_pool"]


@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize(
    "setting", [*_POOLS[:2], *(pytest.param(s, marks=pytest.mark.slow) for s in _POOLS[2:])], ids=str
)
def test_max_pools_ignore_infinite_tails(setting, value):
    """TensorFlow's max pools ignore NaN, so these do not show whether tails are masked."""
    with poison.filled_with(value):
        _check(setting)


@pytest.mark.slow
@pytest.mark.parametrize("setting", BROAD, ids=str)
def test_all_windows_of_one_dimension_equal_the_whole(setting):
    _check(setting, mesh_impl=IMPLS[setting.lines[0].size % 2])


@pytest.mark.slow
@pytest.mark.parametrize(("setting", "most"), _alternating([*FEW, *TABLE[::5]], (2, 3)), ids=str)
def test_devices_with_several_slices(setting, most):
    """Meshes of 4 and 6 rows have two slices for each of two or three devices."""
    lines = tuple(dataclasses.replace(n, parts=2 * most if i == 0 else n.parts) for i, n in enumerate(setting.lines))
    _check(dataclasses.replace(setting, lines=lines), mesh_impl="placement", most=most)


# TensorFlow has no float64 kernels of 3D pools on the CPU.
@pytest.mark.parametrize("setting", [FEW[1], pytest.param(FEW[5], marks=pytest.mark.slow), FEW[9]], ids=str)
def test_float64(setting):
    _check(setting, "float64")


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting", [s for s in FEW + TABLE[::3] if not s.op.endswith("pool") or len(s.lines) < 3], ids=str
)
def test_the_table_in_float64(setting):
    _check(setting, "float64")


@pytest.mark.slow
@pytest.mark.parametrize(("setting", "mesh_impl"), _alternating([s for s in FEW + TABLE if len(s.lines) == 3]), ids=str)
def test_bfloat16(setting, mesh_impl):
    _check(setting, "bfloat16", mesh_impl)


@st.composite
def lines(draw, kind, padding, largest):
    """Draws a `Line`."""
    size, parts = draw(st.integers(1, largest)), draw(st.sampled_from([1, 2, 2, 3, 4, 5, 7]))
    if kind in RESIZES:
        return Line(size, parts, output=draw(st.integers(1, largest)))
    if kind in PADS:
        limit = {"reflect": size - 1, "symmetric": size}.get(kind, 9)
        return Line(size, parts, pads=(draw(st.integers(0, limit)), draw(st.integers(0, limit))))
    kernel, stride = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    dilation = 1 if kind.endswith("pool") else draw(st.integers(1, 4))
    pads = (draw(st.integers(-4, 9)), draw(st.integers(-4, 9))) if padding == "explicit" else (0, 0)
    return Line(size, parts, kernel, stride, dilation, pads)


@st.composite
def any_settings(draw):
    """Draws a `Setting` of 1, 2 or 3 dimensions on a mesh of at most 24 processors."""
    kind = draw(st.sampled_from([*KINDS, *KINDS, *RESIZES, *PADS]))
    padding = draw(st.sampled_from(["SAME", "VALID", "explicit"])) if kind in KINDS else "SAME"
    dims = draw(st.sampled_from([1, 2, 3]))
    some = tuple(draw(lines(kind, padding, {1: 24, 2: 12, 3: 8}[dims])) for _ in range(dims))
    groups = draw(st.sampled_from([1, 1, 2, 3])) if kind == "conv" and dims > 1 else 1
    batch, channels, filters = (draw(st.integers(1, 5)) for _ in range(3))
    cores, model, filter_model = (draw(st.sampled_from([1, 1, 2, 3])) for _ in range(3))
    setting = Setting(
        kind, some, padding, groups, batch, channels * groups, filters * groups, cores, model, filter_model
    )
    assume(setting.is_legal and math.prod([*(n.parts for n in some), cores, model, filter_model]) <= 24)
    return setting


@pytest.mark.slow
@settings(max_examples=60)
@given(any_settings(), st.sampled_from(IMPLS), st.sampled_from([2, 3, 4, 8]))
def test_any_setting(setting, mesh_impl, most):
    _check(setting, "float32", mesh_impl, most)


def test_a_tail_that_is_not_a_number_does_not_reach_a_gradient():
    """Zero times NaN is NaN, so masks must select instead of multiply."""

    def fn(x, f):
        y = mi.ops.conv1d(x, f, name="conv")
        y = mi.mtf.sqrt(y)  # the tail of y is undefined, and its derivative may be infinite
        return y, *mtf.gradients([mtf.reduce_sum(y)], [x, f])

    inputs = {"x": ("batch:1,x:5,channels:1", "float64"), "f": ("fx:3,channels:1,filters:1", "float64")}
    values = {"x": np.full([1, 5, 1], 2.0), "f": np.ones([3, 1, 1])}
    whole, split = mi.Program(fn, inputs)(**values), mi.Program(fn, inputs, "rows:4", "x:rows")(**values)
    for value, expected in zip(split, whole, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-12)
