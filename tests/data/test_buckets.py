"""Records with several grids: the choice of the grids, the manifest, and batches of one grid each."""

import collections
import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtf_imaging.data.augmentation import Augmentation
from mtf_imaging.data.records.convert import convert
from mtf_imaging.data.records.data_set import Records
from mtf_imaging.data.records.manifest import open_records, record_path
from mtf_imaging.data.records.pipeline import bucket_turns
from mtf_imaging.data.records.splits import Subset
from mtf_imaging.data.sampling.buckets import (
    Samplings,
    choose_grids,
    make_sampling,
    padding,
    parse_any_sampling,
    parse_grids,
)
from mtf_imaging.data.sampling.grid import format_grid
from mtf_imaging.data.sampling.sampling import Sampling, smallest_box
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.files.partial import remove
from tests.records import contents, read_record

MM = (1.0, 1.0, 1.0)
SMALL, LARGE = (4, 4, 4), (8, 8, 4)
SHAPES = {"1": (4, 3, 4), "2": (7, 8, 2), "3": (4, 4, 3), "10": (2, 4, 4)}


@pytest.fixture
def cases(tmp_path, store, arrays):
    """Four LiTS cases with voxels of 1 mm; case 2 is larger than the others."""
    for number, (key, shape) in enumerate(SHAPES.items()):
        hu, labels = arrays(number, shape)
        store(tmp_path / f"cases/volume-{key}.nii", hu, spacing=MM)
        store(tmp_path / f"cases/segmentation-{key}.nii", labels, spacing=MM)
    return tmp_path / "cases"


@pytest.fixture
def records(tmp_path, cases):
    convert(cases, tmp_path / "records", spacing=MM, grids=2, multiple=4, progress=False)
    return tmp_path / "records"


def voxels(sizes, grids):
    """Returns the total number of voxels if each size gets the smallest grid that covers it; None if none does."""
    covering = [[math.prod(g) for g in grids if all(a >= b for a, b in zip(g, size))] for size in sizes]
    return sum(map(min, covering)) if all(covering) else None


def least_voxels(sizes, count):
    """Returns the least total number of voxels of all sets of grids, by brute force."""
    axes = [sorted({size[axis] for size in sizes}) for axis in range(3)]
    candidates = list(itertools.product(*axes))
    totals = (voxels(sizes, grids) for grids in itertools.combinations(candidates, min(count, len(candidates))))
    return min(total for total in totals if total is not None)


shapes = st.lists(st.tuples(*[st.integers(1, 16)] * 3), min_size=1, max_size=7)


@settings(max_examples=60)
@given(shapes, st.integers(1, 2))
def test_few_sizes_get_the_grids_with_the_fewest_voxels(shapes, count):
    grids = choose_grids([(shape, MM) for shape in shapes], MM, count, multiple=4)
    assert len(grids) <= count
    assert all(size % 4 == 0 for grid in grids for size in grid)
    sizes = [smallest_box([(shape, MM)], MM, 4) for shape in shapes]
    assert voxels(sizes, grids) == least_voxels(sizes, count)
    sampling = make_sampling(grids, MM)
    assert {sampling.choose(shape, MM).grid for shape in shapes} == {*grids}  # each grid is used


def test_one_grid_is_the_smallest_box():
    rng = np.random.default_rng(0)
    volumes = [(tuple(rng.integers(10, 90, 3).tolist()), (0.7, 0.8, 2.5)) for _ in range(30)]
    assert choose_grids(volumes, (1.5, 1.5, 2.0), 1) == (smallest_box(volumes, (1.5, 1.5, 2.0)),)


def test_many_sizes_are_merged_to_a_few_grids_that_cover_all():
    rng = np.random.default_rng(0)
    groups = [(40, 40, 40), (120, 120, 60), (200, 200, 160)]
    volumes = [(tuple((np.array(g) - rng.integers(0, 30, 3)).tolist()), MM) for g in groups for _ in range(40)]
    grids = choose_grids(volumes, MM, 3, multiple=2)
    assert grids == tuple(groups)  # the groups are recovered
    assert grids == choose_grids(volumes[::-1], MM, 3, multiple=2)
    paddings = [padding(volumes, make_sampling(choose_grids(volumes, MM, n, 2), MM)) for n in (1, 2, 3, 6)]
    assert paddings == sorted(paddings, reverse=True)


def test_a_volume_gets_the_smallest_grid_that_covers_it_or_the_one_that_covers_most():
    sampling = Samplings(((4, 4, 4), (8, 8, 2), (8, 8, 8)), MM)
    chosen = {shape: sampling.choose(shape, MM).grid for shape in [(4, 4, 4), (5, 3, 2), (5, 5, 5), (20, 20, 2)]}
    assert chosen == {(4, 4, 4): (4, 4, 4), (5, 3, 2): (8, 8, 2), (5, 5, 5): (8, 8, 8), (20, 20, 2): (8, 8, 2)}
    assert sampling.choose((10, 10, 10), (0.4, 0.4, 0.4)).grid == (4, 4, 4)  # 4 mm
    assert sampling.spans((5, 5, 5), MM) == Sampling((8, 8, 8), MM).spans((5, 5, 5), MM)


def test_grids_as_text():
    sampling = parse_any_sampling("x:8,y:8,z:4|4", "1,1,1")
    assert sampling == Samplings((SMALL, LARGE), MM)
    assert str(sampling) == "x:4,y:4,z:4|x:8,y:8,z:4 of 1,1,1 mm"
    assert parse_grids(str(sampling).split()[0]) == (SMALL, LARGE)
    assert parse_any_sampling("4|4", 1) == Sampling(SMALL, MM)
    with pytest.raises(DataError, match=r"resolution 'x:4.*\|x:8.*': several grids need a spacing.*Fix: give spacing"):
        parse_any_sampling("4|x:8,y:8,z:4")


def test_each_record_has_the_smallest_grid(records, cases, tmp_path):
    manifest = open_records(records)
    assert manifest.sampling == Samplings((SMALL, LARGE), MM)
    assert dict(zip(manifest.cases, manifest.grids)) == {"1": SMALL, "2": LARGE, "3": SMALL, "10": SMALL}
    fields = json.loads((records / "dataset.json").read_text())
    assert (fields["format"], fields["resolution"]) == (5, "x:4,y:4,z:4|x:8,y:8,z:4")
    assert [case["grid"] for case in fields["cases"]] == [[4, 4, 4], [8, 8, 4], [4, 4, 4], [4, 4, 4]]
    for key in SHAPES:
        record = read_record(record_path(records, key), manifest.case_sampling(key))
        alone = tmp_path / f"alone-{key}"
        convert(cases, alone, format_grid(manifest.case_sampling(key).grid), MM, progress=False)
        np.testing.assert_array_equal(record.image, read_record(record_path(alone, key)).image)
    # the same grids by name
    convert(cases, tmp_path / "named", "4|x:8,y:8,z:4", "1,1,1", progress=False)
    assert (tmp_path / "named/dataset.json").read_bytes() == (records / "dataset.json").read_bytes()


def test_a_conversion_is_summarized_and_resumed(records, cases, capsys):
    before = contents(records)
    remove(record_path(records, "2"))
    convert(cases, records, spacing=MM, grids=2, multiple=4)
    assert contents(records) == before
    assert capsys.readouterr().out.splitlines()[5:9] == [  # after what was understood of the cases
        "2 grids of 1,1,1 mm, in multiples of 4 voxels:",
        "  x:4,y:4,z:4: 3 cases (1, 3, 10)",
        "  x:8,y:8,z:4: 1 case (2)",
        "padding: 46% of the voxels; it would be 77% with one grid, x:8,y:8,z:4",
    ]
    with pytest.raises(DataError, match=r"resolution x:4,y:4,z:4\|x:8,y:8,z:4 of 1,1,1 mm, not x:8,y:8,z:4 of 1,1,1"):
        convert(cases, records, spacing=MM, multiple=4, progress=False)


def test_one_grid_is_written_as_before(cases, tmp_path):
    convert(cases, tmp_path / "default", spacing=MM, progress=False)
    fields = json.loads((tmp_path / "default/dataset.json").read_text())
    assert (fields["format"], fields["resolution"]) == (5, "x:16,y:16,z:16")
    assert not any("grid" in case for case in fields["cases"])
    # no choice of several grids saves voxels
    convert(cases, tmp_path / "three", spacing=MM, grids=3, progress=False)
    assert (tmp_path / "three/dataset.json").read_bytes() == (tmp_path / "default/dataset.json").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"grids": 0, "spacing": MM}, "grids = 0: it must be an int of at least 1"),
        ({"multiple": 0, "spacing": MM}, "multiple = 0: it must be an int of at least 1"),
        ({"grids": 2}, "grids = 2 has no effect without a spacing.*Fix: give spacing, too, or leave grids out"),
        ({"multiple": 8}, "multiple = 8 has no effect without a spacing"),
        ({"grids": 2, "spacing": MM, "resolution": 8}, "grids = 2 and resolution = 8 both set the grid"),
    ],
)
def test_mistakes(cases, tmp_path, arguments, text):
    with pytest.raises(ConfigError, match=text):
        convert(cases, tmp_path / "records", **arguments, progress=False)
    assert not (tmp_path / "records").exists()


def test_a_required_resolution_or_spacing(records):
    with pytest.raises(DataError, match=r"have 2 grids, .*but the resolution x:8,y:8,z:4 is required. Fix: leave"):
        open_records(records, LARGE)
    with pytest.raises(DataError, match=r"of 1,1,1 mm, not .* of 2,2,2 mm"):
        open_records(records, spacing="2")
    assert open_records(Subset(records, ("2",))).grids == [LARGE]


@pytest.mark.parametrize("seed", [0, 7, None])
def test_turns_of_buckets(seed):
    sizes = (3, 1, 4)
    turns = list(itertools.islice(bucket_turns(sizes, 0, seed), 24))
    for start in (0, 8, 16):
        counts = collections.Counter(bucket for bucket, _ in turns[start : start + 8])
        assert counts == {0: 3, 1: 1, 2: 4}
    for bucket in range(3):
        assert [turn for b, turn in turns if b == bucket] == list(range(3 * sizes[bucket]))
    for start in (1, 8, 13):
        assert list(itertools.islice(bucket_turns(sizes, start, seed), 24 - start)) == turns[start:]
    orders = {tuple(bucket for bucket, _ in turns[start : start + 8]) for start in (0, 8, 16)}
    assert (len(orders) == 1) == (seed is None)


def take(batches, count):
    return list(itertools.islice(batches, count))


def test_batches_have_one_grid_and_all_cases_occur_equally_often(records):
    batches = take(Records().training_batches(records, 2, seed=3), 8)  # two cycles
    grids = dict(zip(SHAPES, [SMALL, LARGE, SMALL, SMALL]))
    for batch in batches:
        assert {grids[key] for key in batch["cases"]} == {tuple(batch["image"].shape[1:4])}
        assert batch["labels"].shape == batch["image"].shape[:4]
    counts = collections.Counter(key for batch in batches for key in batch["cases"])
    assert counts == dict.fromkeys(SHAPES, 4)
    other = take(Records().training_batches(records, 2, seed=4), 8)
    assert [batch["cases"] for batch in batches] != [batch["cases"] for batch in other]


@pytest.mark.slow
@pytest.mark.parametrize("parts", [1, 2])
def test_batches_do_not_depend_on_the_start(records, parts):
    samples = Records(augmentation=Augmentation(flips=("x",), noise=0.1))
    all_batches = take(samples.training_batches(records, 1, seed=1, parts=parts), 12)
    for start in (1, 4, 7):
        resumed = take(samples.training_batches(records, 1, 1, start, parts=parts), 12 - start)
        for one, other in zip(resumed, all_batches[start:], strict=True):
            assert one["cases"] == other["cases"]
            np.testing.assert_array_equal(one["image"], other["image"])


def test_micro_batches_are_the_samples_of_the_batch(records):
    whole = take(Records().training_batches(records, 2, seed=1), 6)
    small = take(Records().training_batches(records, 1, seed=1, parts=2), 12)
    assert [batch["cases"] for batch in whole] == [
        a["cases"] + b["cases"] for a, b in zip(small[::2], small[1::2], strict=True)
    ]
