import itertools

import numpy as np
import pytest
import tensorflow as tf

from mtf_imaging.data.augmentation import Augmentation
from mtf_imaging.data.intensities.schemes import WINDOW, Intensity, channel_intensity
from mtf_imaging.data.records.convert import convert
from mtf_imaging.data.records.data_set import Records
from mtf_imaging.data.records.manifest import record_path
from mtf_imaging.errors import ConfigError, DataError
from tests.records import copy, damage, read_record

ALL = Augmentation(flips=("x", "y", "z"), brightness=0.1, contrast=0.2, noise=0.05)
WARPED = Augmentation(rotation=15, elastic=0.02, lesions=0.5, corruption=0.2, multiscale_noise=0.05, gamma=0.2)


@pytest.fixture
def records(tmp_path, store, arrays):
    """Records of five cases with 4 x 3 x 2 voxels."""
    for number in range(5):
        hu, labels = arrays(number)
        store(tmp_path / f"cases/volume-{number}.nii", hu)
        store(tmp_path / f"cases/segmentation-{number}.nii", labels)
    convert(tmp_path / "cases", tmp_path / "records", "x:4,y:3,z:2", progress=False)
    return tmp_path / "records"


def take(batches, count):
    return list(itertools.islice(batches, count))


def assert_same(a, b):
    assert [batch["cases"] for batch in a] == [batch["cases"] for batch in b]
    for one, other in zip(a, b, strict=True):
        np.testing.assert_array_equal(one["image"], other["image"])
        np.testing.assert_array_equal(one["labels"], other["labels"])


@pytest.mark.mostly_slow(fast=0.4)
@pytest.mark.parametrize(("batch_size", "augmentation"), [*itertools.product([1, 2, 7], [None, ALL]), (2, WARPED)])
def test_batches_from_step_k_equal_those_of_an_uninterrupted_run(records, batch_size, augmentation):
    uninterrupted = take(Records(augmentation=augmentation).training_batches(records, batch_size, seed=3), 9)
    for k in (1, 4, 8):
        resumed = Records(augmentation=augmentation).training_batches(records, batch_size, seed=3, start_step=k)
        assert_same(take(resumed, 9 - k), uninterrupted[k:])


def test_a_batch_has_the_windowed_records(records):
    (batch,) = take(Records(window=(-150, 250)).training_batches(records, 3, seed=0, resolution="x:4,y:3,z:2"), 1)
    assert batch["image"].shape == (3, 4, 3, 2, 1)
    assert batch["image"].dtype == np.float32
    assert batch["labels"].shape == (3, 4, 3, 2)
    assert batch["labels"].dtype == np.int32
    for index, key in enumerate(batch["cases"]):
        record = read_record(record_path(records, key))
        np.testing.assert_array_equal(batch["image"][index, ..., 0], Intensity(WINDOW, (-150, 250)).apply(record.image))
        np.testing.assert_array_equal(batch["labels"][index], record.labels)


def test_the_default_window_is_that_of_the_paper():
    hu = np.linspace(-1024, 1024, 101)
    np.testing.assert_allclose(channel_intensity("CT").apply(hu), np.clip(hu / 1024 + 0.5, 0, 1), atol=1e-6)


def test_each_epoch_is_another_permutation_of_all_cases(records):
    keys = [key for batch in take(Records().training_batches(records, 2, seed=0), 10) for key in batch["cases"]]
    epochs = [tuple(keys[start : start + 5]) for start in range(0, 20, 5)]
    assert all(sorted(epoch) == ["0", "1", "2", "3", "4"] for epoch in epochs)
    assert len(set(epochs)) > 1
    assert keys != [key for batch in take(Records().training_batches(records, 2, seed=1), 10) for key in batch["cases"]]
    ordered = take(Records().training_batches(records, 5, seed=0, shuffle=False), 2)
    assert [batch["cases"] for batch in ordered] == [["0", "1", "2", "3", "4"]] * 2


def test_augmentation_flips_image_and_labels_alike_and_stays_in_range(records):
    plain = {k: b for b in take(Records().training_batches(records, 1, seed=0), 5) for k in b["cases"]}
    flipped = take(Records(augmentation=Augmentation(flips=("x", "z"))).training_batches(records, 1, seed=0), 30)
    seen = set()
    for batch in flipped:
        source = plain[batch["cases"][0]]
        for axes in ((), (1,), (3,), (1, 3)):
            if np.array_equal(np.flip(source["image"], axes), batch["image"]):
                np.testing.assert_array_equal(np.flip(source["labels"], axes), batch["labels"])
                seen.add(axes)
                break
        else:
            pytest.fail("An image is not a flip of its record.")
    assert len(seen) == 4
    for batch in take(Records(augmentation=ALL).training_batches(records, 1, seed=0), 5):
        assert 0 <= np.min(batch["image"]) <= np.max(batch["image"]) <= 1
    with pytest.raises(ConfigError, match=r"flips = \('t',\)"):
        Augmentation(flips=("t",))


@pytest.mark.parametrize("channels", [1, 2])
def test_flips_are_those_that_seed_and_sample_draw(channels):
    rng = np.random.default_rng(0)
    image, labels = rng.random((4, 3, 2, channels), np.float32), rng.integers(0, 3, (4, 3, 2), np.uint8)
    flip = Augmentation(flips=("x", "y", "z"))
    seen = set()
    for sample in range(40):
        seeds = tf.random.experimental.stateless_split(tf.constant([5, sample], tf.int64), 6)
        axes = tuple(axis for axis in range(3) if tf.random.stateless_uniform([], seeds[axis]) < 0.5)
        flipped = flip(tf.constant(image), tf.constant(labels), 5, tf.constant(sample, tf.int64))
        np.testing.assert_array_equal(flipped[0], np.flip(image, axes))
        np.testing.assert_array_equal(flipped[1], np.flip(labels, axes))
        seen.add(axes)
    assert len(seen) == 8


def test_bad_arguments_and_folders_are_refused_at_once(records, tmp_path):
    with pytest.raises(ConfigError, match="batch_size = 0: it must be an int of at least 1"):
        Records().training_batches(records, 0, seed=0)
    with pytest.raises(DataError, match=r"resolution x:4,y:3,z:2, not x:8,y:8,z:8"):
        Records().training_batches(records, 1, seed=0, resolution=8)
    with pytest.raises(DataError, match="does not exist"):
        Records().training_batches(tmp_path / "missing", 1, seed=0)
    with pytest.raises(DataError, match=r"window \(100.0, 100.0\)"):
        Records(window=(100, 100)).training_batches(records, 1, seed=0)


def test_a_damaged_record_is_named(records):
    damage(record_path(records, "3"))
    with pytest.raises(
        DataError, match=r"case-3\.ome\.zarr/0/c/0/0/0: this chunk of the record of case '3' is damaged"
    ):
        take(Records().training_batches(records, 2, seed=0), 5)


def test_a_record_of_another_resolution_is_named(records, lits_dir, tmp_path):
    convert(lits_dir, tmp_path / "other", 4, progress=False)
    copy(record_path(tmp_path / "other", "2"), record_path(records, "3"))
    with pytest.raises(DataError, match=r"case-3\.ome\.zarr: this record has resolution x:4,y:4,z:4"):
        take(Records().training_batches(records, 2, seed=0), 5)


@pytest.mark.slow
@pytest.mark.parametrize("augmentation", [None, ALL])
def test_batches_do_not_depend_on_the_chunks_of_the_records(records, tmp_path, augmentation):
    samples = Records(augmentation=augmentation)
    expected = take(samples.training_batches(records, 2, seed=3), 4)
    convert(tmp_path / "cases", tmp_path / "out", "x:4,y:3,z:2", progress=False, chunk="x:2,y:3,z:1")
    assert_same(take(samples.training_batches(tmp_path / "out", 2, seed=3), 4), expected)
