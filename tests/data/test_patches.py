"""Patches of records: their places, their voxels, and what is read for them."""

import math

import numpy as np
import pytest
import tensorflow as tf

from mtf_imaging.data.augmentation import Augmentation
from mtf_imaging.data.intensities.window import DEFAULT_WINDOW
from mtf_imaging.data.records.convert import convert
from mtf_imaging.data.records.data_set import Records
from mtf_imaging.data.records.manifest import open_records
from mtf_imaging.data.records.patches import LabelBlocks, PatchCorners, Patches
from mtf_imaging.data.records.region_reader import RegionReader
from mtf_imaging.data.records.splits import Subset
from mtf_imaging.engine.layout import TensorRegion
from mtf_imaging.errors import ConfigError
from tests.data.conftest import _store
from tests.data.test_region_batches import MOVED, PAINTED, Blurred, darken

GRID, PATCH, BATCH = (14, 12, 10), (6, 4, 8), 3
NUM_CASES = 3
COLORED = Augmentation(flips=("x", "y", "z"), half_turn=0.5, gamma=0.2, contrast=0.2, brightness=0.1)
AUGMENTATIONS = {
    "none": None,
    "colors": COLORED,
    "moved": MOVED,
    "painted": PAINTED,
    "custom": darken,
    "custom by region": Blurred(flips=("x", "y")),
}
# The parts of batch, x, y, z.
REGIONS = [
    [(0, 3), (0, 6), (0, 4), (0, 8)],
    [(0, 3), (3, 6), (0, 4), (0, 8)],
    [(1, 2), (0, 3), (2, 4), (5, 8)],
    [(0, 3), (6, 6), (0, 4), (0, 8)],
]


def case_arrays(number):
    """Returns HU and labels in which each voxel of the image states its position; lesions are rare."""
    rng = np.random.default_rng(number)
    hu = np.arange(math.prod(GRID)).reshape(GRID) % 400 - 200
    labels = np.zeros(GRID, np.uint8)
    if number != 2:  # case 2 has no labels
        labels[2:9, 3:8, 2:7] = 1
        for place in rng.integers((2, 3, 2), (9, 8, 7), (3, 3)):
            labels[tuple(place)] = 2
        labels[0, 0, 0] = labels[-1, -1, -1] = 2  # in corners of the record
    return hu.astype(np.int16), labels


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("patches")
    for number in range(NUM_CASES):
        hu, labels = case_arrays(number)
        _store(folder / f"cases/volume-{number}.nii", hu)
        _store(folder / f"cases/segmentation-{number}.nii", labels)
    convert(folder / "cases", folder / "records", "x:14,y:12,z:10", chunk="x:4,y:5,z:3", progress=False)
    return folder / "records"


def take(batches, count):
    return [next(batches) for _ in range(count)]


def regions(bounds):
    parts = tuple(slice(*each) for each in bounds)
    shape = (BATCH, *PATCH)
    image = TensorRegion((*shape, 1), (*parts, slice(0, 1)))
    return {PATCH: {"image": image, "labels": TensorRegion(shape, parts)}}


def corners(data_dir, patches, count, seed=5, every=1):
    """Returns the corners in a run that reads one case after the other; with `every=NUM_CASES`, those of the first."""
    manifest = open_records(data_dir)
    draw = PatchCorners(patches, RegionReader(data_dir, manifest), manifest, seed)
    numbers = tf.data.Dataset.range(0, count, every).map(lambda sample: draw(sample, sample % NUM_CASES))
    return np.array([*numbers.as_numpy_iterator()])


def test_batches_are_parts_of_the_records(folder):
    manifest, place = open_records(folder), corners(folder, Patches(PATCH), 12)
    batches = take(Records(patches=Patches(PATCH)).training_batches(folder, BATCH, 5, shuffle=False), 4)
    low, high = DEFAULT_WINDOW
    for number, batch in enumerate(batches):
        for position, key in enumerate(batch["cases"]):
            sample = number * BATCH + position
            record = manifest.open_record(folder, key)
            at = tuple(slice(start, start + size) for start, size in zip(place[sample], PATCH, strict=True))
            expected = np.clip((record.image(at).astype(np.float32) - low) / (high - low), 0, 1)
            np.testing.assert_allclose(batch["image"][position, ..., 0], expected, rtol=0, atol=1e-7)
            np.testing.assert_array_equal(batch["labels"][position], record.labels(at))


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_regions_equal_the_regions_of_whole_patches(folder, name):
    samples = Records(augmentation=AUGMENTATIONS[name], patches=Patches(PATCH, centered=0.5))
    whole = take(samples.training_batches(folder, BATCH, 3), 3)
    for bounds in REGIONS if name in ("none", "painted") else REGIONS[2:]:
        found = take(samples.training_batches(folder, BATCH, 3, regions=regions(bounds)), 3)
        at = tuple(slice(*each) for each in bounds)
        for own, all_of in zip(found, whole, strict=True):
            assert own["cases"] == all_of["cases"]
            np.testing.assert_array_equal(own["image"], all_of["image"][at])
            np.testing.assert_array_equal(own["labels"], all_of["labels"][at])


@pytest.mark.parametrize("name", ["none", "moved"])
def test_batches_do_not_depend_on_the_start(folder, name):
    samples = Records(augmentation=AUGMENTATIONS[name], patches=Patches(PATCH))
    first = take(samples.training_batches(folder, BATCH, 3), 4)
    for start in (1, 3):
        later = next(samples.training_batches(folder, BATCH, 3, start))
        np.testing.assert_array_equal(later["image"], first[start]["image"])
        np.testing.assert_array_equal(later["labels"], first[start]["labels"])


def test_batch_size_does_not_change_the_samples(folder):
    samples = Records(patches=Patches(PATCH), augmentation=MOVED)
    large, small = take(samples.training_batches(folder, 4, 3), 1), take(samples.training_batches(folder, 2, 3), 2)
    np.testing.assert_array_equal(large[0]["image"], np.concatenate([batch["image"] for batch in small]))


def test_a_patch_of_the_whole_record_is_the_record(folder):
    """Also with an augmentation, whose warp then finds nothing beyond the patch."""
    for augmentation in (None, PAINTED):
        whole = take(Records(augmentation=augmentation).training_batches(folder, 2, 3), 3)
        found = take(Records(augmentation=augmentation, patches=Patches(GRID)).training_batches(folder, 2, 3), 3)
        for own, expected in zip(found, whole, strict=True):
            np.testing.assert_array_equal(own["image"], expected["image"])
            np.testing.assert_array_equal(own["labels"], expected["labels"])


def test_a_warp_fills_the_border_of_a_patch_with_the_image(folder, monkeypatch):
    """A patch that is moved by 2 voxels equals the neighboring patch, not one with an empty border."""

    class Moved(Augmentation):
        def _moves(self, sizes, draws, within=None):
            moves = super()._moves(sizes, draws, within)
            shift = (tf.eye(3), tf.constant([2.0, -1.0, 0.0]), None)
            return type(moves)(sizes, None, tf.constant(True), shift, within)

    monkeypatch.setattr(PatchCorners, "_corner", lambda self, *args: np.array([3, 4, 1]))
    moved = next(Records(patches=Patches(PATCH), augmentation=Moved(translation=0.1)).training_batches(folder, 1, 3))
    monkeypatch.setattr(PatchCorners, "_corner", lambda self, *args: np.array([5, 3, 1]))
    there = next(Records(patches=Patches(PATCH)).training_batches(folder, 1, 3))
    np.testing.assert_allclose(moved["image"], there["image"], atol=1e-6)
    np.testing.assert_array_equal(moved["labels"], there["labels"])


def test_patches_lie_anywhere(folder):
    found = corners(folder, Patches(PATCH, centered=0), 400)
    free = np.array(GRID) - PATCH
    assert (found >= 0).all()
    assert (found <= free).all()
    for axis, most in enumerate(free):
        numbers = np.bincount(found[:, axis], minlength=most + 1)
        assert numbers.min() > 400 / (most + 1) / 2, numbers


def center_labels(data_dir, found, every=1):
    """Returns the labels of the voxels on which patches of one voxel lie."""
    manifest = open_records(data_dir)
    records = [manifest.open_record(data_dir, key) for key in manifest.cases]
    labels = [record.labels(tuple(slice(0, size) for size in GRID)) for record in records]
    return np.array([labels[sample * every % NUM_CASES][tuple(at)] for sample, at in enumerate(found)])


def test_a_share_of_the_patches_is_centered_on_labels(folder):
    labels = center_labels(folder, corners(folder, Patches((1, 1, 1), centered=1), 300))
    of_case = [labels[case::NUM_CASES] for case in range(NUM_CASES)]
    assert (of_case[2] == 0).any(), "a case without labels has patches anywhere"
    for case in (0, 1):
        assert set(of_case[case]) == {1, 2}
        assert 0.35 < (of_case[case] == 2).mean() < 0.65, "the labels are drawn alike, whatever their sizes"

    def share_of_lesions(count, **options):
        found = corners(folder, Patches((1, 1, 1), **options), count, every=NUM_CASES)
        return (center_labels(folder, found, every=NUM_CASES) == 2).mean()

    assert 0.6 < share_of_lesions(300, centered=1, labels={"lesion": 3, "liver": 1}) < 0.9
    assert share_of_lesions(60, centered=1, labels={"lesion": 1}) == 1
    assert 0.23 < share_of_lesions(600, labels={"lesion": 1}) < 0.43


@pytest.mark.parametrize("centered", [0, 0.2, 1 / 3, 0.5, 1])
def test_each_batch_has_as_many_centered_patches_as_in_nnunet(folder, centered):
    """nnU-Net centers sample i of a batch if `not i < round(batch_size * (1 - centered))`."""
    for batch_size in range(1, 9):
        patches = Patches((1, 1, 1), centered, {"liver": 1}, batch_size)
        nnunet = [not i < round(batch_size * (1 - centered)) for i in range(batch_size)]
        if batch_size > 1 and any(nnunet):
            assert patches.chances == tuple(map(float, nnunet))
        else:
            assert patches.chances == (centered,) * batch_size


@pytest.mark.parametrize(("batch_size", "parts"), [(2, 1), (4, 2), (5, 1)])
def test_every_batch_is_centered_alike_in_whole_and_micro_batches(folder, batch_size, parts):
    """Only case 0, whose labels occupy 7 % of the voxels: a voxel without a label is not centered."""
    subset = Subset(str(folder), (open_records(folder).cases[0],))
    patches, small = Patches((1, 1, 1), batch_size=batch_size), batch_size // parts
    batches = take(Records(patches=patches).training_batches(subset, small, 3), 20 * parts)
    is_labeled = np.concatenate([batch["labels"].numpy().ravel() > 0 for batch in batches]).reshape(20, batch_size)
    anywhere = round(batch_size * 2 / 3)
    assert is_labeled[:, anywhere:].all()
    assert is_labeled[:, :anywhere].mean() < 0.5
    (later,) = take(Records(patches=patches).training_batches(subset, small, 3, 7 * parts), 1)
    np.testing.assert_array_equal(later["image"], batches[7 * parts]["image"])


def test_every_voxel_of_a_label_is_drawn_alike(folder):
    found = corners(folder, Patches((1, 1, 1), centered=1, labels={"liver": 1}), 3000, every=NUM_CASES)
    _, labels = case_arrays(0)
    places = np.argwhere(labels == 1)
    _, counts = np.unique(found, axis=0, return_counts=True)
    assert len(counts) > 0.9 * len(places)
    assert counts.max() < 12 * len(found) / len(places)
    low, high = (found < np.median(places, axis=0)).mean(axis=0), (places < np.median(places, axis=0)).mean(axis=0)
    np.testing.assert_allclose(low, high, atol=0.06)


def test_every_voxel_is_drawn_if_labels_are_drawn_first(folder):
    found = corners(folder, Patches((1, 1, 1), centered=1), 3000, every=NUM_CASES)
    _, labels = case_arrays(0)
    liver = found[labels[tuple(found.T)] == 1]
    assert 400 < len(liver) < 600
    assert len(np.unique(liver, axis=0)) > 0.8 * (labels == 1).sum()


def test_only_the_chunks_of_patches_are_read(folder, monkeypatch):
    """After the labels of a case are counted, a patch reads its own chunks, and one more chunk of labels."""
    read = []
    original = RegionReader.record

    def record(self, case):
        opened = original(self, case)
        read.append(opened)
        return opened

    monkeypatch.setattr(RegionReader, "record", record)
    batches = Records(patches=Patches((2, 2, 2), centered=0)).training_batches(folder, 1, 3)
    take(batches, 6)
    whole = sum(path.stat().st_size for path in folder.rglob("c/*/*/*")) / NUM_CASES
    image = [each.bytes_read for each in read]
    assert image
    assert max(image) < whole / 2, (max(image), whole)


def test_counts_of_chunks(folder):
    record = open_records(folder).open_record(folder, "0")
    blocks = LabelBlocks.count(record, [1, 2])
    _, labels = case_arrays(0)
    np.testing.assert_array_equal(blocks.counts.sum(axis=0), [(labels == 1).sum(), (labels == 2).sum()])
    for region, counts in zip(blocks.regions, blocks.counts, strict=True):
        np.testing.assert_array_equal(counts, [(labels[region] == value).sum() for value in (1, 2)])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sizes": (16, 4, 4)}, ["x:16,y:4,z:4", "case 0", "x:14,y:12,z:10", "x:14,y:4,z:4"]),
        ({"sizes": PATCH, "centered": 1.5}, ["centered_patches = 1.5", "at least 0 and at most 1"]),
        ({"sizes": PATCH, "labels": {"lesions": 1}}, ["'lesions'", "Did you mean 'lesion'"]),
        ({"sizes": PATCH, "labels": {"lesion": 0}}, ["no label has a positive weight"]),
        ({"sizes": PATCH, "labels": {"lesion": -1}}, ["-1 is no weight"]),
    ],
)
def test_mistakes_are_refused(folder, options, words):
    with pytest.raises(ConfigError) as caught:
        Records(patches=Patches(**options)).batches(folder, batch_size=1, sizes=PATCH, seed=0, start_step=0)
    for word in words:
        assert word in str(caught.value), caught.value
