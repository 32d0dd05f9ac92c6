"""Training on records under several processes, of which each reads its own region, equals training in one process."""

import itertools

import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.data.augmentation import Augmentation
from mtf_imaging.data.phantom import write_phantom
from mtf_imaging.engine.layout import Layout
from tests.between import checks
from tests.between.comparison import assert_same
from tests.jobs.test_buckets import MM, resize


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Records with one grid, whose chunks are smaller than the slices of the processes, and with several grids."""
    folder = tmp_path_factory.mktemp("between")
    write_phantom(folder / "cases", 4, seed=1)
    resize(folder / "cases")
    shared = {"input_dir": folder / "cases", "chunk": "x:3,y:4,z:5", "workers": 1, "progress": False}
    mi.jobs.convert(**shared, output_dir=folder / "one_grid", resolution="x:8,y:9,z:6")
    mi.jobs.convert(**shared, output_dir=folder / "two_grids", spacing=MM, grids=2, multiple=4)
    return folder


def case(name, num, mesh_shape, layout, steps=(3,), slow=True, **options):
    marks = [pytest.mark.slow] if slow else []
    options = {"batch_size": 2, **options}
    return pytest.param(name, options, steps, num, mesh_shape, layout, marks=marks, id=f"{name} {layout} {options}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options", "steps", "num", "mesh_shape", "layout"),
    [
        # y: 9 over 4 processes are slices of 3, 3, 3 and 0
        case("one_grid", 4, "rows:4", "y:rows", slow=False),
        case("one_grid", 4, "rows:4,cols:2", "x:rows,y:cols"),
        case("one_grid", 4, "rows:2,cores:2", "x:rows,batch:cores"),
        case("one_grid", 4, "rows:2,same:2", "x:rows"),  # two processes read the same
        case("one_grid", 4, "rows:2,cores:2", "y:rows,batch:cores", batch_size=4, micro_batches=2, steps=(1, 3)),
        case("one_grid", 3, "cores:3", "batch:cores"),  # the last process has no sample
        case("one_grid", 2, "", Layout.parse("slabs:3,rows:2", "x:slabs,y:rows", "slabs"), steps=(1, 3)),
        case("two_grids", 4, "rows:4", "y:rows", steps=(5,)),
        case("two_grids", 2, "rows:2", "x:rows", micro_batches=2, steps=(2, 5)),
    ],
)
def test_training_on_records(groups, folder, name, options, steps, num, mesh_shape, layout):
    assert_same(
        groups.get(num), 1e-9, checks.trained_on_records, str(folder / name), options, steps, mesh_shape, layout
    )


GRID, CHUNK = {"x": 8, "y": 9, "z": 6}, {"x": 3, "y": 4, "z": 5}


def chunks(mesh_shape, layout, process, flipped=()):
    """Returns the sorted paths of the chunks that contain the slices of a process, with one processor in each."""
    mesh, rules = dict(mi.layout.parse_shape(mesh_shape)), dict(mi.layout.parse_layout(layout))
    place = dict(zip(mesh, np.unravel_index(process, list(mesh.values())), strict=True))
    numbers = []
    for dim, size in GRID.items():
        width = -(-size // mesh[rules[dim]]) if dim in rules else size
        start = width * place[rules[dim]] if dim in rules else 0
        voxels = np.arange(start, min(start + width, size))
        numbers.append(sorted({*((size - 1 - voxels if dim in flipped else voxels) // CHUNK[dim]).tolist()}))
    x, y, z = numbers
    arrays = "0", "labels/segmentation/0"
    return sorted(f"{array}/c/{k}/{j}/{i}" for array, k, j, i in itertools.product(arrays, z, y, x))


PARTS = {"batch_size": 4, "micro_batches": 2}


@pytest.mark.parametrize(
    ("mesh_shape", "layout", "flips", "options"),
    [
        ("rows:4", "y:rows", (), {}),  # the last process has no voxels
        pytest.param("rows:2,cols:2", "x:rows,z:cols", ("x",), {}, marks=pytest.mark.slow),
        pytest.param("rows:2,same:2", "x:rows", (), {}, marks=pytest.mark.slow),
        pytest.param("cores:2,rows:2", "y:rows,batch:cores", ("y",), PARTS, marks=pytest.mark.slow),
    ],
)
def test_each_process_reads_the_chunks_of_its_slices_and_no_others(groups, folder, mesh_shape, layout, flips, options):
    args = str(folder / "one_grid"), Augmentation(flips=flips), {"batch_size": 2, **options}, mesh_shape, layout
    for process, samples in enumerate(groups.get(4).run(checks.chunks_read_by_training, *args, "collective")):
        expected = [chunks(mesh_shape, layout, process, flipped) for flipped in {(), flips}]
        if not expected[0]:
            assert not samples
        else:
            assert samples
            assert all(each in expected for each in samples), (process, samples)


@pytest.mark.slow
def test_one_process_reads_each_chunk_once_for_all_its_devices(folder):
    args = str(folder / "one_grid"), None, {"batch_size": 2}, "rows:2,cols:2", "x:rows,y:cols"
    samples = checks.chunks_read_by_training(*args, "placement")
    assert samples
    assert all(each == chunks("", "", 0) for each in samples)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "mesh_shape", "layout"),
    [
        ({"batch_size": 2}, "rows:4", "y:rows"),
        ({"batch_size": 4, "micro_batches": 2}, "cores:2,rows:2", "x:rows,batch:cores"),
    ],
)
def test_training_on_regions_of_a_custom_data_set(groups, tmp_path, options, mesh_shape, layout):
    assert_same(groups.get(4), 1e-9, checks.trained_on_own_data, str(tmp_path), options, mesh_shape, layout)


@pytest.mark.slow
def test_processes_that_read_different_cases_are_refused(groups, tmp_path):
    for message in groups.get(2).run(checks.different_cases, str(tmp_path)):
        assert "the processes disagree about the training data" in message
