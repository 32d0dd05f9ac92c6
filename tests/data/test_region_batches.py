"""Batches of which a process reads only its region equal the regions of whole batches, and read only what they need."""

import functools
import itertools
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from mtf_imaging.data.augmentation import Augmentation
from mtf_imaging.data.records.convert import convert
from mtf_imaging.data.records.data_set import Records
from mtf_imaging.data.records.manifest import open_records
from mtf_imaging.data.records.region_reader import RegionReader
from mtf_imaging.data.records.samples import Samples
from mtf_imaging.data.records.stored import StoredRecord
from mtf_imaging.engine.layout import TensorRegion
from mtf_imaging.errors import DataError
from tests import pages
from tests.data.conftest import _arrays, _store

PAGE = Path(__file__).parents[2] / "docs/guides/own_network.md"
GRID, BATCH = (12, 10, 9), 3
SHAPES = {"image": (BATCH, *GRID, 1), "labels": (BATCH, *GRID)}
# The parts of batch, x, y, z.
REGIONS = {
    "whole": [(0, 3), (0, 12), (0, 10), (0, 9)],
    "half": [(0, 3), (6, 12), (0, 10), (0, 9)],
    "corner": [(0, 3), (0, 4), (5, 10), (6, 9)],
    "thin": [(0, 3), (0, 12), (3, 6), (0, 9)],
    "samples": [(1, 3), (0, 12), (0, 10), (0, 9)],
    "last sample": [(2, 3), (8, 12), (0, 10), (4, 6)],
    "no voxels": [(0, 3), (12, 12), (0, 10), (0, 9)],
    "no samples": [(3, 3), (0, 12), (0, 10), (0, 9)],
}
MOVED = Augmentation(flips=("x", "y", "z"), rotation=15, zoom=0.1, elastic=0.02, warp=0.7, half_turn=0.5)
PAINTED = Augmentation(
    flips=("x", "z"),
    translation=0.1,
    lesions=0.9,
    corruption=0.2,
    noise=0.05,
    multiscale_noise=0.05,
    gamma=0.2,
    contrast=0.2,
    brightness=0.1,
)


def darken(image, labels, seed, sample):
    """A custom augmentation, which depends on the whole image."""
    return image - tf.reduce_mean(image) + tf.cast(sample, tf.float32), labels


def wider(region, sizes):
    """Returns a region with the neighbors of its voxels along x."""
    x, *others = region
    return (slice(max(x.start - 1, 0), min(x.stop + 1, sizes[0])), *others)


class Blurred(Augmentation):
    """A custom augmentation by region: a voxel is the largest one of itself and its neighbors along x."""

    def source_bounds(self, region, sizes, seed, sample):
        return super().source_bounds(wider(region, sizes), sizes, seed, sample)

    def in_region(self, image, labels, seed, sample, *, region, sizes, **more):
        outer = wider(region, sizes)
        image, labels = super().in_region(image, labels, seed, sample, region=outer, sizes=sizes, **more)
        padded = tf.pad(image, [[1, 1], [0, 0], [0, 0], [0, 0]])
        image = tf.reduce_max(tf.stack([padded[:-2], padded[1:-1], padded[2:]]), 0)
        own = slice(region[0].start - outer[0].start, region[0].stop - outer[0].start)
        return image[own], labels[own]


class Darkened(Augmentation):
    """A custom augmentation that derives from ours, but changes whole samples."""

    def __call__(self, image, labels, seed, sample, **more):
        return darken(*super().__call__(image, labels, seed, sample, **more), seed, sample)


AUGMENTATIONS = {
    "none": None,
    "moved": MOVED,
    "painted": PAINTED,
    "custom": darken,
    "custom by region": Blurred(flips=("x", "y")),
    "custom, derived": Darkened(flips=("x", "y")),
}


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Records of four cases in chunks."""
    folder = tmp_path_factory.mktemp("regions")
    for number in range(4):
        hu, labels = _arrays(number, GRID)
        _store(folder / f"cases/volume-{number}.nii", hu)
        _store(folder / f"cases/segmentation-{number}.nii", labels)
    convert(folder / "cases", folder / "records", "x:12,y:10,z:9", chunk="x:4,y:5,z:3", progress=False)
    return folder / "records"


def as_region(name, bounds):
    parts = tuple(slice(*each) for each in bounds)
    return TensorRegion(SHAPES[name], (*parts, slice(0, 1)) if name == "image" else parts)


def regions_of(bounds):
    return {name: as_region(name, bounds) for name in SHAPES}


def take(batches, count):
    return list(itertools.islice(batches, count))


@pytest.fixture(scope="module")
def whole(records):
    """Returns a function that returns whole batches for the name of an augmentation."""
    return functools.cache(
        lambda name: take(Records(augmentation=AUGMENTATIONS[name]).training_batches(records, BATCH, seed=3), 5)
    )


@pytest.mark.mostly_slow(fast=0.1)
@pytest.mark.parametrize("augmentation", AUGMENTATIONS)
@pytest.mark.parametrize("region", REGIONS)
def test_a_region_of_a_batch_equals_that_of_the_whole_batch(records, whole, region, augmentation):
    regions = regions_of(REGIONS[region])
    for start in (0, 2):
        samples, own = Records(augmentation=AUGMENTATIONS[augmentation]), {GRID: regions}
        batches = take(samples.training_batches(records, BATCH, 3, start, regions=own), 3)
        for batch, expected in zip(batches, whole(augmentation)[start:], strict=False):
            assert batch["cases"] == expected["cases"]
            for name in SHAPES:
                np.testing.assert_array_equal(batch[name], expected[name].numpy()[regions[name].slices], err_msg=name)
                assert batch[name].dtype == expected[name].dtype


def test_image_and_labels_may_have_different_regions(records, whole):
    regions = {"image": as_region("image", REGIONS["corner"]), "labels": as_region("labels", REGIONS["last sample"])}
    batches = Records(augmentation=MOVED).training_batches(records, BATCH, seed=3, regions={GRID: regions})
    for batch, expected in zip(take(batches, 2), whole("moved")):
        for name, region in regions.items():
            np.testing.assert_array_equal(batch[name], expected[name].numpy()[region.slices])


def test_the_augmentation_of_the_page_of_custom_code(records):
    made = {"__name__": "my_augmentation"}
    exec(pages.files(PAGE)["my_augmentation.py"], made)
    samples = Records(augmentation=made["Shaded"](flips=("x",)))
    (batch,) = take(samples.training_batches(records, BATCH, seed=3), 1)
    regions = regions_of(REGIONS["half"])
    (half,) = take(samples.training_batches(records, BATCH, seed=3, regions={GRID: regions}), 1)
    np.testing.assert_array_equal(half["image"], batch["image"].numpy()[regions["image"].slices])
    (plain,) = take(Records(augmentation=Augmentation(flips=("x",))).training_batches(records, BATCH, seed=3), 1)
    assert not np.array_equal(batch["image"], plain["image"])


def chunk_bytes(path, bounds, chunk):
    """Returns the bytes of the files of all chunks that overlap bounds, [3, 2], in an array of a record."""
    ranges = [range(first // n, math.ceil(end / n)) for (first, end), n in zip(bounds, chunk)]
    return sum((path / "c" / "/".join(map(str, reversed(at)))).stat().st_size for at in itertools.product(*ranges))


@pytest.mark.mostly_slow(fast=0.5)
@pytest.mark.parametrize("augmentation", ["none", "moved", "painted", "custom by region"])
def test_only_the_chunks_that_a_region_needs_are_read(records, monkeypatch, augmentation):
    opened, region = [], tuple(slice(*each) for each in REGIONS["corner"][1:])

    def spy(*args):
        opened.append(StoredRecord(*args))
        return opened[-1]

    monkeypatch.setattr("mtf_imaging.data.records.manifest.StoredRecord", spy)
    manifest, changes = open_records(records), AUGMENTATIONS[augmentation]
    samples = Samples(RegionReader(records, manifest), manifest, manifest.intensities, changes, 3, region)
    fewest, total = math.inf, 0
    for number in range(8):
        sample = tf.constant(number, tf.int64)
        samples(sample, tf.constant(1, tf.int64))
        (record,) = opened
        path, every = record.path, [(0, n) for n in GRID]
        box = [(part.start, part.stop) for part in region]
        if changes:
            box = changes.source_bounds(region, GRID, 3, sample).numpy().tolist()
        of_labels = every if changes and changes.needs_whole_labels else box
        image, labels = path / "0", path / "labels/segmentation/0"
        expected = chunk_bytes(image, box, record.chunk) + chunk_bytes(labels, of_labels, record.chunk)
        assert record.bytes_read == expected
        total = chunk_bytes(image, every, record.chunk) + chunk_bytes(labels, every, record.chunk)
        fewest = min(fewest, expected)
        opened.clear()
    assert fewest < 0.7 * total, "the region needs almost everything, so the test proves nothing"


def test_only_the_samples_of_a_process_are_read(records, monkeypatch):
    opened = []

    def spy(*args):
        opened.append(StoredRecord(*args))
        return opened[-1]

    monkeypatch.setattr("mtf_imaging.data.records.manifest.StoredRecord", spy)
    parts = (slice(1, 3), *(slice(0, n) for n in GRID))
    regions = {"image": TensorRegion((4, *GRID, 1), (*parts, slice(0, 1))), "labels": TensorRegion((4, *GRID), parts)}
    batches = Records().training_batches(records, 4, seed=3, shuffle=False, regions={GRID: regions})
    assert [batch["cases"] for batch in take(batches, 3)] == [["0", "1", "2", "3"]] * 3
    assert {record.facts.key for record in opened} == {"1", "2"}


def test_a_process_without_voxels_reads_nothing(records, monkeypatch):
    monkeypatch.setattr("mtf_imaging.data.records.manifest.StoredRecord", None)
    for name in ("no voxels", "no samples"):
        regions = {GRID: regions_of(REGIONS[name])}
        (batch,) = take(Records(augmentation=PAINTED).training_batches(records, BATCH, seed=3, regions=regions), 1)
        assert len(batch["cases"]) == BATCH


def test_inputs_of_another_size_are_refused_at_once(records):
    options = {"batch_size": BATCH, "sizes": GRID, "seed": 0, "start_step": 0}
    regions = regions_of(REGIONS["half"]) | {"image": TensorRegion((3, 12, 10, 9, 2), (slice(0, 1),) * 5)}
    with pytest.raises(
        DataError, match=r"'image' has the shape \[3, 12, 10, 9, 1\], but the task's input has the shape"
    ):
        Records().region_batches(records, **options, regions=regions)


def test_a_damaged_chunk_is_named(records, tmp_path):
    shutil.copytree(records, tmp_path / "records")
    chunk = tmp_path / "records/case-2.ome.zarr/0/c/2/1/2"
    chunk.write_bytes(chunk.read_bytes()[:-1])
    far, near = regions_of([(0, 3), (0, 4), (0, 5), (0, 3)]), regions_of([(0, 3), (8, 12), (5, 10), (6, 9)])
    # The first regions do not include the chunk.
    take(Records().training_batches(tmp_path / "records", BATCH, seed=0, regions={GRID: far}), 4)
    with pytest.raises(
        DataError, match=r"case-2\.ome\.zarr/0/c/2/1/2: this chunk of the record of case '2' is damaged"
    ):
        take(Records().training_batches(tmp_path / "records", BATCH, seed=0, regions={GRID: near}), 4)
