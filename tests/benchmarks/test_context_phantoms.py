"""Phantoms whose labels need distant context: what shows the label of a structure, and where."""

import numpy as np
import pytest

from benchmarks.context_study import phantoms
from benchmarks.context_study.phantoms import PHANTOMS
from mtf_imaging.data.cases.cases import find_data_set
from mtf_imaging.data.phantom.phantom import write_phantom

CASES = range(8)


def paint(structures, number, **extra):
    """Returns the image and the labels of a case."""
    return phantoms.paint_body(np.random.default_rng([1, number, *extra.values()]), structures)


def sign_of(image, is_dark=False):
    """Returns the positions of the bright (or dark) voxels in the half of the body that has no structures."""
    contrast = image[:90] - np.median(image[:90][image[:90] > 200])
    mask = contrast < -250 if is_dark else contrast > 250
    inner = np.zeros_like(mask)
    inner[:, 5:19, 5:19] = True
    return np.argwhere(mask & inner)


@pytest.mark.parametrize("number", CASES)
def test_a_far_marker_shows_the_only_label(number):
    image, labels = paint(phantoms.marker, number)
    (label,) = np.unique(labels[labels > 0])
    sign = sign_of(image, is_dark=label == 2)
    assert len(sign) > 200, "the marker is missing"
    at = sign.mean(0)
    x = np.argwhere(labels)[:, 0]
    low, high = phantoms.DISTANCE_MM
    assert low - 4 <= x.min() - at[0]  # a structure has a radius of up to 3 voxels
    assert x.max() - at[0] <= high + 4


@pytest.mark.parametrize("number", CASES)
def test_a_far_sign_shows_which_side_is_which(number):
    image, labels = paint(phantoms.side, number)
    sign = sign_of(image)
    at = sign.mean(0)
    middle = (phantoms.SHAPE[1] - 1) / 2
    for label in (1, 2):
        y = np.argwhere(labels == label)[:, 1]
        assert (np.sign(y - middle) == np.sign(at[1] - middle) * (1 if label == 1 else -1)).all()
    assert np.argwhere(labels)[:, 0].min() - np.quantile(sign[:, 0], 0.99) >= phantoms.DISTANCE_MM[0] - 4


def test_patients_are_mirrored_and_markers_differ():
    sides = {sign_of(paint(phantoms.side, number)[0]).mean(0)[1] > 11.5 for number in CASES}
    labels = {int(paint(phantoms.marker, number)[1].max()) for number in CASES}
    assert (sides, labels) == ({True, False}, {1, 2})


@pytest.mark.parametrize("structures", [phantoms.marker, phantoms.side])
def test_structures_of_both_labels_look_alike(structures):
    values = {1: [], 2: []}
    for number in range(12):
        image, labels = paint(structures, number)
        tissue = np.median(image[120:][labels[120:] == 0])
        for label, found in values.items():
            found += list((image[labels == label] - tissue)[:200])
    means = {label: np.mean(found) for label, found in values.items()}
    assert abs(means[1] - means[2]) < 30 < min(means.values())


def test_textures_have_the_same_mean_and_differ_from_voxel_to_voxel():
    steps, means = {1: [], 2: []}, {1: [], 2: []}
    for number in range(4):
        image, labels = paint(phantoms.texture, number)
        for label in (1, 2):
            pairs = (labels[1:] == label) & (labels[:-1] == label)
            steps[label] += list(np.abs(np.diff(image, axis=0))[pairs])
            means[label] += list(image[labels == label])
    assert np.mean(steps[1]) > 3 * np.mean(steps[2])
    assert np.mean(means[1]) == pytest.approx(np.mean(means[2]), rel=0.1)


@pytest.mark.parametrize("kind", PHANTOMS.values(), ids=PHANTOMS)
def test_the_files_are_a_described_data_set_with_two_labels(kind, tmp_path):
    assert write_phantom(tmp_path, 1, seed=0, kind=kind) == ["body_000"]
    description, cases, _ = find_data_set(tmp_path)
    assert [*description.labels.values()] == [1, 2]
    assert [case.key for case in cases] == ["body_000"]
