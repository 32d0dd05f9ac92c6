"""Processors that take turns: all operations equal TensorFlow's on the whole tensor, and programs do not grow."""

import concurrent.futures
import errno
import functools
import os
import re

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.layout import Layout
from mtf_imaging.engine.meshes import runtime
from mtf_imaging.engine.processes.processes import Processes
from mtf_imaging.engine.program.in_turns import free_space
from mtf_imaging.engine.turns import store
from mtf_imaging.errors import ConfigError, LayoutError, OutOfMemoryError
from tests.engine.harness import assert_all_pairs, check, pairwise
from tests.engine.ops import padded
from tests.engine.ops.test_ops_equal_whole import CASES, LAYOUTS, UNEVEN

mtf = mi.mtf
WAYS = ["in turns", "half in turns"]
LARGE = [pair for pair in LAYOUTS + UNEVEN if pair[1]]


def _rows(cases):
    return [(case, pair, way) for case in cases for pair in LARGE for way in WAYS if case.allows(pair[1])]


def _first(rows):
    """Returns one row for each case; layouts and ways alternate."""
    found = {}
    for number, row in enumerate(rows):
        found.setdefault(row[0].name, []).append((number, row))
    return [own[i * 7 % len(own)][1] for i, own in enumerate(found.values())]


ALL = _rows(CASES + padded.CASES)
FAST = _first(_rows(CASES))[::3]
PAIRS = [*FAST, *(row for row in pairwise(ALL) if row not in FAST)]


def test_all_pairs_of_a_case_a_layout_and_a_way_occur():
    assert_all_pairs(PAIRS, ALL)


@pytest.mark.parametrize(
    ("case", "pair", "way"),
    [
        pytest.param(
            *row,
            id=f"{row[0].name}-{row[1][0]}-{row[1][1]}-{row[2]}",
            marks=[] if row in FAST else [pytest.mark.slow],
        )
        for row in PAIRS
    ],
)
def test_equals_the_whole(case, pair, way):
    check(case, "float32", *pair, way)


SHAPES = {
    "x": ("batch:1,x:32,y:8,z:8,channels:4", "float64"),
    "f": ("kx:3,ky:3,kz:3,channels:4,filters:4", "float64"),
    "g": ("kx:3,ky:3,kz:3,filters:4,channels:4", "float64"),
}


def network(x, f, g):
    y = mtf.relu(mi.ops.instance_norm(mi.ops.conv3d(x, f), name="norm"))
    total = mtf.reduce_sum(mtf.square(mi.ops.conv3d(y, g)))
    return dict(zip(["total", "y", "df", "dx"], [total, y, *mtf.gradients([total], [f, x])], strict=True))


def build(turns, fn=network, **options):
    return mi.Program(fn, SHAPES, f"slabs:{turns}", "x:slabs", sequential="slabs", **options)


@pytest.fixture(autouse=True)
def _small_values_wait_in_files(monkeypatch):
    monkeypatch.setattr(store, "IN_MEMORY", 0)


@functools.cache
def values():
    rng = np.random.default_rng(0)
    return {
        name: rng.standard_normal([int(dim.partition(":")[2]) for dim in shape.split(",")])
        for name, (shape, _) in SHAPES.items()
    }


def results(program):
    return {name: value.numpy() for name, value in program(**values()).items()}


@functools.cache
def whole():
    return results(mi.Program(network, SHAPES))


@pytest.mark.parametrize("turns", [3, 8, 32, 40])  # uneven, even, one voxel each, and empty slices
def test_any_number_of_turns_gives_the_same_results(turns, tmp_path):
    for name, value in results(build(turns, offload_dir=str(tmp_path))).items():
        np.testing.assert_allclose(value, whole()[name], rtol=1e-9, atol=1e-9)
    assert not list(tmp_path.iterdir())  # the file has no name


def test_a_mesh_of_many_dimensions():
    """TensorFlow slices tensors of up to 8 dimensions."""
    for name, value in results(build("4,a:1,b:1,c:1,d:1")).items():
        np.testing.assert_allclose(value, whole()[name], rtol=1e-9, atol=1e-9)


def test_programs_share_a_folder(tmp_path):
    programs = [build(turns, offload_dir=str(tmp_path)) for turns in (3, 8)]
    with concurrent.futures.ThreadPoolExecutor() as threads:
        for found in threads.map(results, programs * 2):
            np.testing.assert_allclose(found["total"], whole()["total"], rtol=1e-9)


def test_the_costs_are_those_of_a_call(tmp_path):
    program = build(8, offload_dir=str(tmp_path))
    costs, stored = program.turn_costs, program.function.schedule.store
    program(**values())
    assert (costs.written, costs.read, costs.waiting) == (stored.written, stored.read, stored.size)
    assert costs.inputs == sum(value.nbytes for value in values().values())
    assert build(4).turn_costs.memory > costs.memory


def test_a_max_pool_and_its_gradient_break_ties_alike():
    """TensorFlow's gradient of a max pool breaks ties like the pool only if both are in one function."""

    def fn(x, f, g):
        y = mtf.cast(mtf.relu(mi.ops.conv3d(x, f)), tf.float32)
        pooled = mi.ops.instance_norm(mi.ops.max_pool3d(mi.ops.instance_norm(y, name="a"), 2, 2), name="b")
        return mtf.gradients([mtf.reduce_sum(mtf.square(pooled) * pooled)], [y])[0]

    ties = {name: np.round(value) for name, value in values().items()}
    np.testing.assert_allclose(build(4, fn)(**ties), mi.Program(fn, SHAPES)(**ties), rtol=1e-4, atol=1e-4)


def test_the_memory_of_a_turn():
    """A convolution of a slab of [1, 8, 8, 8, 4] float64 with rows of neighbors."""
    slab, row, wide = 8 * 8**3 * 4, 8 * 8**2 * 4, 8 * 10**3 * 4
    costs = build(4, lambda x, f, g: mi.ops.conv3d(x, f) + mtf.reduce_sum(g)).turn_costs
    assert (costs.reads, costs.writes) == (2 * row, 2 * row)  # rows of two neighbors, and its own
    assert slab + wide < costs.tensors < 7 * slab


@pytest.mark.parametrize("with_gradient", [False, True])
def test_halos_that_grow_from_slice_to_slice_cost_the_same_in_any_number_of_turns(with_gradient):
    """Slabs of 3 voxels become slabs of 2 voxels behind the pool, so the last of them lie far from their sources."""

    def fn(x, f, g):
        y = mi.ops.conv3d_transpose(mi.ops.avg_pool3d(mi.ops.conv3d(x, f), 2, 2), g, 2)
        y = mtf.reduce_sum(mtf.square(y))
        return mtf.reduce_sum(mtf.square(mtf.gradients([y], [x])[0])) if with_gradient else y

    programs = []
    for turns in (24, 96):
        shapes = SHAPES | {"x": (f"batch:1,x:{3 * turns},y:8,z:8,channels:4", "float64")}
        shapes["g"] = ("kx:2,ky:2,kz:2,channels:4,filters:4", "float64")
        programs.append(mi.Program(fn, shapes, f"slabs:{turns}", "x:slabs", sequential="slabs"))
    few, many = (program.turn_costs for program in programs)
    assert (few.tensors, few.reads, few.writes, few.nodes) == (many.tensors, many.reads, many.writes, many.nodes)


def test_the_same_turns_give_the_same_bits():
    first, second = results(build(4)), results(build(4))
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name])


@pytest.mark.parametrize(("kernel", "padding"), [(3, "SAME"), (4, "SAME"), (3, "VALID")])
def test_any_number_of_turns_gives_the_same_bits(kernel, padding):
    """Each turn sums all windows that contain one of its own voxels, although windows of two slabs overlap."""
    taps = f"kx:{kernel},ky:{kernel},kz:{kernel},channels:4,filters:4"
    shapes = {"x": ("batch:1,x:32,y:8,z:8,channels:4", "float32"), "f": (taps, "float32"), "g": (taps, "float32")}
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal([int(n) for n in re.findall(r":(\d+)", s)]) for name, (s, _) in shapes.items()}

    def fn(x, f, g):
        y = mi.ops.conv3d_transpose(mtf.relu(mi.ops.conv3d(x, f, strides=2)), g, 2, padding)
        return y, mtf.gradients([mtf.reduce_sum(mtf.square(y))], [x])[0]

    two, five, eight = (
        mi.Program(fn, shapes, f"slabs:{turns}", "x:slabs", sequential="slabs")(**arrays) for turns in (2, 5, 8)
    )
    for values in (five, eight):
        for value, expected in zip(values, two, strict=True):
            np.testing.assert_array_equal(value, expected)


def test_the_graph_does_not_grow_with_the_number_of_turns():
    few, many = build(8), build(32)
    assert many.num_nodes <= 1.1 * few.num_nodes
    assert len(many.function.schedule.stages) == len(few.function.schedule.stages)


def test_activations_are_computed_again_from_stored_convolutions():
    """The normalized activations are not stored, but the convolution before them, which the backward pass needs too.

    The two others are the gradients of the second convolution and of its input.
    """
    stored = build(4).function.schedule.store.values
    large = [name for name, value in stored.items() if value.nbytes == 8 * 8 * 8 * 4 * 8]
    assert len(large) == 3, large


def _with_more_filters(y):
    return mtf.slice(mtf.concat([mtf.sigmoid(y), y], "filters"), 2, 4, "filters")


# What lies between two convolutions, and the number of strips that a turn stores because its neighbor needs them. A
# strip of the input is always stored, on both sides.
BETWEEN = {
    "nothing": (lambda y: y, 2),
    "activation that is not 0 at 0": (mtf.sigmoid, 2),
    "selection": (lambda y: mtf.where(mtf.less(y, 0.5), mtf.square(y), 1.0 + y), 2),
    "batch norm": (lambda y: mi.ops.batch_norm(y, True), 2),
    "group norm": (lambda y: mi.ops.group_norm(y, 2), 2),
    "layer norm": (mi.ops.layer_norm, 2),
    "sum of two": (lambda y: y + mtf.exp(0.1 * y), 2),
    "other filters": (_with_more_filters, 2),
    "pool": (lambda y: mi.ops.max_pool3d(y, 2, 1), 5),
    "position": (lambda y: y * mtf.cast(mtf.mtf_range(y.mesh, y.shape.get_dim_by_name("x"), tf.int32), y.dtype), 2),
}


@pytest.mark.parametrize("between", BETWEEN)
def test_a_neighbor_computes_its_strip(between):
    middle, number = BETWEEN[between]

    def fn(x, f, g):
        total = mtf.reduce_sum(mtf.square(mi.ops.conv3d(middle(mi.ops.conv3d(x, f)), g)))
        return dict(zip(["total", "df", "dx"], [total, *mtf.gradients([total], [f, x])], strict=True))

    expected, program = results(mi.Program(fn, SHAPES)), build(8, fn)
    for name, value in results(program).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-9, atol=1e-9)
    strips = [x for x, value in program.function.schedule.store.values.items() if value.shape[-4:] == (1, 8, 8, 4)]
    assert len(strips) == number, strips


def test_sums_and_largest_values():
    def fn(x, f, g):
        del f, g
        ones = mtf.ones(x.mesh, x.shape, x.dtype)
        return {
            "sum": mtf.reduce_sum(ones),
            "largest": mtf.reduce_max(ones),
            "both": mtf.reduce_sum(ones * 2.0 + 0.0 * x),
            "largest of different ones": mtf.reduce_max(x),
        }

    largest = values()["x"].max()
    expected = {"sum": 32 * 8 * 8 * 4, "largest": 1, "both": 2 * 32 * 8 * 8 * 4, "largest of different ones": largest}
    assert results(build(4, fn)) == expected


def test_halos_of_values_that_are_equal_in_all_turns():
    """The turns at the border read zeros."""

    def fn(x, f, g):
        del g
        return {"y": mi.ops.conv3d(mtf.ones(x.mesh, x.shape, x.dtype), f)}

    expected = results(mi.Program(fn, SHAPES))["y"]
    np.testing.assert_allclose(results(build(4, fn))["y"], expected, rtol=1e-9, atol=1e-9)


def test_placement_in_turns():
    program = mi.Program(
        network, SHAPES, "rows:2,slabs:4", "y:rows,x:slabs", "placement", ["CPU:0", "CPU:1"], sequential="slabs"
    )
    assert len(program.mesh_impl.devices) == 2
    for name, value in results(program).items():
        np.testing.assert_allclose(value, whole()[name], rtol=1e-9, atol=1e-9)


def _exchanging(x, f, g):
    """Returns values that the first or the last of several processes knows in advance."""
    y = mi.ops.conv3d(x, f, strides=2)  # with a halo on one side
    shifted = mtf.reduce_sum(mtf.shift(y, 2, y.shape.dims[2], wrap=False))  # by a whole slice of 2 processes
    small = mtf.Shape([mtf.Dimension(dim.name, 1) for dim in f.shape.dims[:3]] + f.shape.dims[3:])
    ones, pointwise = (mtf.ones(x.mesh, shape, x.dtype) for shape in (x.shape, small))
    of_ones = mtf.reduce_sum(mi.ops.conv3d(ones, pointwise))
    return shifted, *mtf.gradients([shifted], [f, x]), *mtf.gradients([of_ones], [pointwise])


def _stages_of_exchanges(layout, number, index):
    """Returns {first instance key: stage} of the exchanges of a program in one of several processes."""
    with runtime.rehearse(Processes([("localhost", 5000 + i) for i in range(number)], index)):
        program = mi.Program(_exchanging, SHAPES, layout=layout)
    stages = {}
    for stage in program.function.schedule.stages:
        for op in stage.effects:
            (key,) = [x for x in op.inputs if x.op.type == "Unpack"]
            (firsts,) = [value for x in key.op.inputs[0].op.inputs if (value := tf.get_static_value(x)) is not None]
            stages[int(firsts[key.value_index])] = stage.number
    return stages


@pytest.mark.parametrize(("number", "mesh"), [(2, "slabs:4,rows:2"), (3, "slabs:3,rows:6")])  # the last has no voxels
def test_all_processes_exchange_in_the_same_stages(number, mesh):
    layout = Layout.parse(mesh, "x:slabs,y:rows", "slabs")
    found = [_stages_of_exchanges(layout, number, index) for index in range(number)]
    together = {key: {stages[key] for stages in found if key in stages} for stages in found for key in stages}
    assert len(together) > 3
    assert all(len(stages) == 1 for stages in together.values()), together


def test_an_unknown_mesh_dimension_is_refused():
    with pytest.raises(LayoutError, match=r"sequential names 'slab', but mesh_shape 'slabs:4'.* Did you mean 'slabs'"):
        mi.Program(network, SHAPES, "slabs:4", "x:slabs", sequential="slab")


def test_a_folder_without_space_is_refused_before_the_first_step(monkeypatch, tmp_path):
    program = build(8, offload_dir=str(tmp_path))
    program.function.schedule.store.size = 2**60
    with pytest.raises(OutOfMemoryError, match=r"store 1,152,921,504,606,846,976 bytes, but .* bytes free"):
        program(**values())


def test_a_result_without_space_is_refused(tmp_path):
    with pytest.raises(OutOfMemoryError, match=r"a large array needs 4,398,046,511,104 bytes, but .* free"):
        store.Store({}, 2, str(tmp_path)).empty((2**40,), tf.float32)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("name", "what"), [("missing", "does not exist"), ("file", "is not a folder")])
def test_a_missing_folder_is_refused_even_if_nothing_is_stored(name, what, tmp_path):
    (tmp_path / "file").touch()
    folder = str(tmp_path / name)
    expected = f"offload_dir '{folder}' {what}. Fix: create the folder, or choose another one."
    with pytest.raises(ConfigError) as error:
        mi.Program(lambda x: x, {"x": "x:2"}, offload_dir=folder)
    assert str(error.value) == expected
    with pytest.raises(ConfigError) as error:
        free_space(folder)
    assert str(error.value) == expected


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    program = build(8, offload_dir=str(tmp_path))
    tmp_path.rmdir()
    with pytest.raises(ConfigError, match=r"offload_dir '.*' cannot be written: No such file"):
        program(**values())


def test_a_disk_that_fills_ends_the_call(monkeypatch, tmp_path):
    program = build(8, offload_dir=str(tmp_path))

    write, written = os.pwrite, []

    def full(handle, data, offset):
        written.append(offset)
        if len(written) > 10:  # in a later stage
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(handle, data, offset)

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OutOfMemoryError, match="No space left on device"):
        program(**values())
    monkeypatch.undo()
    np.testing.assert_allclose(results(program)["total"], whole()["total"])  # the program is still usable


def test_a_write_that_failed_is_forgotten(monkeypatch, tmp_path):
    waiting = store.Store({"x": store.Value((64,), tf.float32, 1, 3)}, 2, str(tmp_path))
    waiting.open()

    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    waiting.put("x", 0, tf.zeros([64]))
    waiting.forget()
    waiting.settle(0)  # the error would end the next call


def _looped(x, f, g):
    """Returns the results of a loop whose iterations exchange halos."""
    start = [mtf.constant(x.mesh, 0, dtype=tf.int32), x]
    y = mtf.while_loop(lambda i, _: mtf.less(i, 2), lambda i, y: [i + 1, mi.ops.conv3d(mi.ops.conv3d(y, f), g)], start)[
        1
    ]
    return {"y": mi.ops.conv3d(y, f), "sum": mtf.reduce_sum(y)}


@pytest.mark.parametrize("turns", [3, 4])
def test_the_iterations_of_a_loop_exchange_halos(turns):
    expected = results(mi.Program(_looped, SHAPES))
    for name, value in results(build(turns, _looped)).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-9, atol=1e-6)
