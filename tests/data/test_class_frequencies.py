"""Frequencies of classes, counted in records and in label images."""

import numpy as np
import pytest

from mtf_imaging.data.class_frequencies import class_frequencies, evenly_spread
from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.records.convert import convert
from mtf_imaging.data.records.data_set import Records
from mtf_imaging.data.records.label_counts import count_labels
from mtf_imaging.data.records.manifest import open_records, record_path
from mtf_imaging.data.records.splits import Subset
from mtf_imaging.data.sampling.sampling import Sampling
from mtf_imaging.errors import DataError
from mtf_imaging.kinds.photos.data_set import Photos
from mtf_imaging.kinds.photos.reading.folders import find_photos
from mtf_imaging.kinds.photos.reading.label_images import read_label_image
from tests.jobs.photo_network import CLASSES, write_photos
from tests.records import damage, read_record


def test_frequencies_leave_out_the_ignore_label():
    counts = np.array([60, 20, 20, 900])
    assert class_frequencies(counts, [[0], [1], [2]], ignore=3) == (0.6, 0.2, 0.2)
    assert class_frequencies(counts, [[1, 2], [2]], ignore=3) == (0.4, 0.2)
    assert class_frequencies(counts, [[0], [1], [2]]) == (0.06, 0.02, 0.02)
    assert class_frequencies(np.array([0, 0, 0, 900]), [[0]], ignore=3) is None
    assert counts[3] == 900


def test_spread_items_keep_their_order():
    assert evenly_spread("abcdefg", 3) == ["a", "c", "e"]
    assert evenly_spread("abc", 3) == evenly_spread("abc", 9) == ["a", "b", "c"]
    assert evenly_spread([], 3) == []


def test_outputs_of_a_network():
    labels = {"edema": 1, "core": 2}
    assert LITS.outputs == {"background": (0,), "liver": (1,), "lesion": (2,)}
    regions = Description(("MR",), labels, {"whole": (1, 2), "core": (2,)}, region_order=(1, 2))
    assert regions.outputs == {"whole": (1, 2), "core": (2,)}
    assert regions.num_outputs == 2
    assert CLASSES.outputs == {"ground": (0,), "box": (1,), "sky": (2,)}


def test_labels_of_records_are_counted(lits_dir, tmp_path):
    # More planes than are read at a time.
    convert(lits_dir, tmp_path, Sampling((35, 9, 8)), workers=1, progress=False)
    manifest = open_records(tmp_path)
    labels = {key: read_record(record_path(tmp_path, key)).labels for key in manifest.cases}
    each = {key: np.bincount(labels[key].ravel(), minlength=256) for key in labels}
    assert sum(each.values())[1:3].all()
    np.testing.assert_array_equal(Records().label_counts(tmp_path), sum(each.values()))
    first, *others = each
    np.testing.assert_array_equal(count_labels(Subset(tmp_path, tuple(others))), sum(each[key] for key in others))
    np.testing.assert_array_equal(count_labels(tmp_path, most=1), each[first])
    slabs = [labels[key][start : start + 16] for key in labels for start in (0, 32)]  # every second one
    third = count_labels(tmp_path, most_voxels=sum(each.values()).sum() * 2 // 3)
    np.testing.assert_array_equal(third, np.bincount(np.concatenate(slabs, None), minlength=256))
    damage(record_path(tmp_path, others[-1]) / "labels")
    with pytest.raises(DataError, match="Fix: run convert again; it replaces damaged records"):
        count_labels(tmp_path)


def test_pixels_of_the_photos_to_train_on_are_counted(tmp_path):
    write_photos(tmp_path / "photos")
    images = [read_label_image(photo.labels, CLASSES) for photo in find_photos(tmp_path / "photos", "train")]
    counts = sum(np.bincount(labels.ravel(), minlength=256) for labels in images)
    assert counts[[0, 1, 2, 255]].all()
    np.testing.assert_array_equal(Photos().label_counts(tmp_path / "photos"), counts)
