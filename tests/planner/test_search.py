"""Search: the ranking of all legal layouts, and the largest cube."""

import dataclasses
import math
from types import SimpleNamespace

import pytest

from mtf_imaging.engine.layout import Layout
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.planner.cost.hardware import Hardware, find_hardware
from mtf_imaging.planner.render.search_table import search_table
from mtf_imaging.planner.search.equal import equal_layouts, split_axes
from mtf_imaging.planner.search.largest import largest_cube, largest_size
from mtf_imaging.planner.search.search import Searched, Steps, Target, candidates, layouts_in_turns, search
from mtf_imaging.training.optimizers import Adafactor
from mtf_imaging.training.step import TrainingStep

H200 = find_hardware("h200")


@pytest.mark.parametrize(("devices", "dims", "number"), [(1, "xyz", 1), (8, "xyz", 20), (12, "xy", 18), (7, "x", 2)])
def test_every_factorization_of_the_devices_is_a_candidate(devices, dims, number):
    found = list(candidates(devices, dims))
    assert len(set(found)) == len(found) == number
    for layout in found:
        assert layout.processors == devices
        assert [onto for _, onto in layout.rules] == [name for name, _ in layout.mesh_shape]


@pytest.mark.parametrize(
    ("devices", "sizes", "layouts"),
    [
        (1, {"x": 24}, ["slabs:2", "slabs:3", "slabs:4", "slabs:6"]),
        (1, {"x": 18, "y": 8}, ["slabs:2", "slabs:3", "slabs:4"]),  # 4 slabs of 5, 5, 5 and 3
        (2, {"x": 16, "y": 8}, ["rows:2,slabs:2", "rows:2,slabs:4"]),
        (3, {"x": 8, "y": 2, "z": 9}, ["cols:3,slabs:2"]),
        (4, {"x": 8, "batch": 8}, ["cores:4,slabs:2"]),
        (4, {"x": 32, "y": 2, "z": 2}, ["rows:2,cols:2,slabs:2", "rows:2,cols:2,slabs:4", "rows:2,cols:2,slabs:8"]),
        (5, {"x": 16, "y": 2}, []),
        (1, {"x": 32, "y": 128}, ["slabs:2", "slabs:4", "slabs:8", "slabs:2,columns:4", "slabs:2,columns:8"]),
        (2, {"x": 32, "y": 64}, ["rows:2,slabs:2", "rows:2,slabs:4", "rows:2,slabs:8"]),
    ],
)
def test_slabs_take_turns_and_devices_split_the_rest(devices, sizes, layouts):
    found = layouts_in_turns(devices, {"batch": 1} | sizes, [name for name in sizes if name != "batch"])
    assert [layout.mesh_string for layout in found] == layouts
    for layout in found:
        assert layout.sequential[0] == "slabs"
        assert dict(layout.rules)["x"] == "slabs"
        assert layout.processors // layout.turns == devices


@pytest.fixture(scope="module")
def steps():
    traced = []

    def trace(layout, recompute):
        traced.append(recompute)
        return step(recompute).trace(layout)

    def step(recompute):
        task = LiverTumorSegmentation(UNet3D(base_filters=4, depth=3, recompute=recompute))
        return TrainingStep(task, Adafactor(), (32, 32, 32), batch_size=4, dtype="bfloat16")

    steps = Steps(trace, step(False).part_inputs)
    steps.traced = traced
    return steps


def found(steps, gib, **options):
    return search(candidates(8, "xyz"), steps, Target(H200, "bfloat16", gib * 2**30), **options)


def test_the_fastest_layout_that_fits_is_first(steps):
    searched = found(steps, 100)
    assert (len(searched.found), len(searched.skipped)) == (19, 1)
    too_many = Layout.parse("cores:8", "batch:cores")
    reason = "batch: 4 over cores:8 -> slices of 1, 4 of 8 empty, so processors would be idle"
    assert searched.skipped == {too_many: reason}
    times = [one.time.total for one in searched.found]
    assert times == sorted(times)
    assert searched.best is searched.found[0]
    assert all(one.fits and not one.recompute for one in searched.found)
    assert steps.traced == [False], "one trace serves all layouts"
    table = search_table(searched, 3).splitlines()
    assert len(table) == 7
    assert table[1].endswith("the fastest that fits")
    assert table[4] == "and 4 more; increase top to list them"
    assert table[5].startswith("equal layouts: ")
    assert table[6] == f"skipped: batch:cores on cores:8. {reason}"


def axes(searched):
    """Returns {(mesh sizes, whether the batch is split): for each group, the axes that its layouts split}."""
    groups = equal_layouts(searched)
    assert sorted(map(id, sum(groups, ()))) == sorted(map(id, searched.found)), "each layout is in one group"
    result = {}
    for group in groups:
        (on,) = {(tuple(n for _, n in one.layout.mesh_shape), "batch" in str(one.layout)) for one in group}
        result.setdefault(on, []).append(" ".join("".join(split_axes(one.layout)) for one in group))
    return result


def test_layouts_of_a_cube_that_exchange_axes_are_equal(steps):
    searched = found(steps, 100)
    assert axes(searched) == {
        ((2, 4), True): ["x y z"],
        ((4, 2), True): ["x y z"],
        ((8,), False): ["x y z"],
        ((2, 2, 2), True): ["xy xz yz"],
        ((4, 2), False): ["xy xz yz"],
        ((2, 4), False): ["xy xz yz"],  # the corners of halos are sent in another order than on 4 x 2
        ((2, 2, 2), False): ["xyz"],
    }
    assert equal_layouts(searched)[0][0] is searched.best
    table = search_table(searched).splitlines()
    assert "  equal layouts  " in table[0]
    (row,) = (line for line in table if " rows:4,cols:2 " in line)
    assert "  x:rows,y:cols  " in row
    assert "  3: x,y / x,z / y,z  " in row
    assert not any(" cols:4,planes:2 " in line for line in table)


def test_only_axes_of_the_same_size_are_exchanged():
    """The network treats all axes alike, so the plans of x and y are equal."""
    step = TrainingStep(LiverTumorSegmentation(UNet3D(base_filters=2, depth=2, convs=1)), Adafactor(), (16, 16, 32))
    traced = Steps(lambda layout, _: step.trace(layout), step.part_inputs)
    assert axes(search(candidates(4, "xyz"), traced, Target(H200, "float32", 1e12))) == {
        ((4,), False): ["z", "x y"],
        ((2, 2), False): ["xz yz", "xy"],
    }


@pytest.mark.parametrize("sizes", [{"kernel_sizes": ((3, 3, 1), (3, 3, 3))}, {"pool_sizes": ((2, 2, 1),)}])
def test_axes_that_the_network_treats_differently_are_not_exchanged(sizes):
    network = UNet3D(base_filters=2, depth=2, convs=1, **sizes)
    step = TrainingStep(LiverTumorSegmentation(network), Adafactor(), (16, 16, 16))
    traced = Steps(lambda layout, _: step.trace(layout), step.part_inputs)
    groups = axes(search(candidates(4, "xyz"), traced, Target(H200, "float32", 1e12)))
    assert {size: sorted(group) for size, group in groups.items()} == {
        ((4,), False): ["x y", "z"],
        ((2, 2), False): ["xy", "xz yz"],
    }


@pytest.mark.parametrize("change", ["memory of an operation", "messages", "recompute", "memory", "time"])
def test_layouts_with_different_plans_are_not_equal(steps, change):
    whole = found(steps, 100, only=1)
    (one,) = search([Layout.parse("cols:8", "y:cols")], steps, Target(H200, "bfloat16", 1e12)).found
    searched = dataclasses.replace(whole, found=(*whole.found, one))
    assert len(equal_layouts(searched)) == 1
    op = next(op for op in one.plan.ops if op.exchanges)
    changed = {
        "memory of an operation": lambda: with_op(one, op, nbytes=op.nbytes + 1),
        "messages": lambda: with_op(one, op, exchanges=op.exchanges[1:]),
        "recompute": lambda: dataclasses.replace(one, recompute=True),
        "memory": lambda: dataclasses.replace(one, plan=dataclasses.replace(one.plan, weights=one.plan.weights + 1)),
        "time": lambda: dataclasses.replace(one, time=one.time._replace(latency=1.0)),
    }[change]()
    searched = dataclasses.replace(whole, found=(*whole.found, changed))
    assert [len(equal) for equal in equal_layouts(searched)] == [1, 1]
    assert "equal layouts" not in search_table(searched)


def with_op(one, op, **changes):
    ops = tuple(dataclasses.replace(op, **changes) if other is op else other for other in one.plan.ops)
    return dataclasses.replace(one, plan=dataclasses.replace(one.plan, ops=ops))


@pytest.mark.slow
def test_each_slower_layout_has_a_reason(steps):
    searched = found(steps, 100)
    others = [equal[0] for equal in equal_layouts(searched)][1:]
    for line, one in zip(search_table(searched).splitlines()[2:], others, strict=False):
        slower = one.time.total / searched.best.time.total - 1
        if slower < 0.0005:
            assert line.endswith("equally fast")
        else:
            assert f"{slower:.1%} slower: " in line
            assert line.endswith((" bytes", " exchanges"))


@pytest.mark.slow
def test_if_nothing_fits_activations_are_recomputed(steps):
    kept = min(one.plan.memory for one in found(steps, 100).found)
    searched = found(steps, (kept - 1) / 2**30)
    assert searched.best.recompute
    assert [one.fits for one in searched.found] == sorted((one.fits for one in searched.found), reverse=True)
    assert "(recomputed)" in search_table(searched, 1)
    nothing = found(steps, 1e-6)
    assert nothing.best is None
    assert "does not fit" in search_table(nothing, 1)


def test_a_network_that_depends_on_the_layout_is_traced_for_each():
    def trace(layout, recompute):
        traced.append(layout)
        return step.trace(layout)

    task, traced = LiverTumorSegmentation(UNet3D(base_filters=2, depth=2, convs=1, gather_below=4)), []
    step = TrainingStep(task, Adafactor(), (16, 16, 16))
    searched = search(candidates(2, "xyz"), Steps(trace, step.part_inputs), Target(H200, "float32", 1e12))
    assert len(traced) == len(searched.found) == 3
    assert len(searched.skipped) == 1


def test_a_search_that_ranks_nothing_prints_why():
    layout = Layout.parse("rows:8", "x:rows")
    assert search_table(Searched((), {layout: "idle"}, {"x": 4})) == f"skipped: {layout}. idle"


def test_uneven_layouts_are_ranked_unless_processors_are_idle():
    slow = Hardware("slow", memory=1e12, flops=1e6, flops_float32=1e6, link=1e12, latency=1e-9)
    step = TrainingStep(LiverTumorSegmentation(UNet3D(base_filters=2, depth=2, convs=1)), Adafactor(), (14, 12, 12), 5)
    searched = search(
        candidates(5, "xyz"),
        Steps(lambda layout, _: step.trace(layout), step.part_inputs),
        Target(slow, "float32", 1e12),
        True,
    )
    assert [str(one.layout) for one in searched.found] == ["batch:cores on cores:5", "x:rows on rows:5"]
    table = search_table(searched, 9).splitlines()
    assert table[2].endswith("slower: uneven slices waste 10% of the work")
    assert table[3].endswith("y: 12 over cols:5 -> slices of 3, 1 of 5 empty, so processors would be idle")
    assert len(searched.skipped) == 2


@dataclasses.dataclass
class Cubes:
    """A fake search: 100 bytes per voxel plus `overhead` for halos, split 2 x 2 x 2 or 8 ways."""

    memory: float
    overhead: float = 0.0
    looked: int = 0

    def __call__(self, size, every, only):
        found = []
        for layout in every:
            parts = max(n for _, n in layout.mesh_shape)
            if size % (8 * parts) == 0 and (only is None or len(found) < only):
                self.looked += 1
                nbytes = 100 * size**3 * (1 + self.overhead / size)
                plan = SimpleNamespace(memory=nbytes, ops=())
                fits = nbytes <= self.memory
                found.append(SimpleNamespace(layout=layout, recompute=False, plan=plan, time=1.0, fits=fits))
        return Searched(tuple(found), {}, dict.fromkeys("xyz", size))


@pytest.mark.parametrize("overhead", [0, 10, 60])
@pytest.mark.parametrize("size", [16, 48, 112, 128, 256, 304, 720, 1008, 1504])
def test_the_largest_cube(size, overhead):
    every = [Layout.parse("rows:8", "x:rows"), Layout.parse("rows:2,cols:2,planes:2", "x:rows,y:cols,z:planes")]
    cubes = Cubes(100 * size**3 * (1 + overhead / size) * 1.001, overhead)
    found, best = largest_cube(cubes, every, cubes.memory)
    assert found == size
    assert best.fits


def test_the_largest_cube_tries_different_layouts_before_equal_ones():
    def search_at(size, every, only):
        tried.append(every)
        return cubes(size, every, only)

    x, y, z = (Layout.parse("rows:8", f"{dim}:rows") for dim in "xyz")
    blocks, tried = Layout.parse("rows:2,cols:2,planes:2", "x:rows,y:cols,z:planes"), []
    cubes = Cubes(100 * 256**3)
    assert largest_cube(search_at, [x, y, z, blocks], cubes.memory)[0] == 256
    assert tried[0] == [x, y, z, blocks]
    assert tried[1] == [x, blocks, y, z]


def test_none_if_no_cube_fits():
    assert largest_cube(Cubes(1.0), [Layout.parse("rows:8", "x:rows")], 1.0) is None


@pytest.mark.parametrize("power", [1, 2, 3])
@pytest.mark.parametrize("size", [0, 16, 144, 512, 1504])
def test_the_largest_size_in_turns_is_found_with_few_tries(size, power):
    tried = []

    def need(n):
        tried.append(n)
        return (n / (size + 1)) ** power

    assert largest_size(need) == (size or None)
    assert len(tried) <= 6 * (4 - power)


def test_sizes_that_the_network_refuses_do_not_fit():
    assert largest_size(lambda n: 0.5 if n <= 352 else math.inf) == 352
