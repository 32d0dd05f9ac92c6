"""Tests that synthetic lesions lie in the liver, change both image and labels, and have the given size."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import ndimage

from mtf_imaging.data.augmentation import Augmentation

SIZES = (24, 22, 20)


def volume(channels=1):
    image = np.full((*SIZES, channels), 0.6, np.float32)
    labels = np.zeros(SIZES, np.uint8)
    labels[3:21, 3:19, 3:17] = 1
    labels[5:8, 5:8, 5:8] = 2
    return image, labels


def painted(sample, image=None, labels=None, **options):
    image, labels = volume() if image is None else (image, labels)
    options = {"lesions": 1.0, "lesion_count": 1, "lesion_diameter": (4, 8), "lesion_contrast": (0.1, 0.2)} | options
    found = Augmentation(**options)(tf.constant(image), tf.constant(labels), 1, tf.constant(sample, tf.int64))
    return tuple(x.numpy() for x in found)


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("sample", range(5))
def test_a_lesion_is_dark_liver(sample, channels):
    before, labels = volume(channels)
    image, found = painted(sample, before, labels)
    changed = found != labels
    assert np.all(labels[changed] == 1)
    assert np.all(found[changed] == 2)
    darker = before - image
    assert np.all(darker[labels != 1] == 0)
    assert 0 <= darker.min() <= darker.max() <= 0.2 + 1e-6
    assert darker.max() >= 0.1 - 1e-6
    assert darker[changed].min() > 0.04  # half of the contrast at the surface
    assert darker[(labels == 1) & ~changed].mean() < 0.02


@pytest.mark.slow
def test_lesions_have_the_given_sizes():
    widths = []
    for sample in range(40):
        changed = painted(sample)[1] != volume()[1]
        widths.append(max(s.stop - s.start for s in ndimage.find_objects(changed.astype(int))[0]))
    assert max(widths) <= 9  # a diameter of 8 can touch 9 voxels
    assert min(widths) >= 2
    assert len(set(widths)) > 3


@pytest.mark.slow
def test_up_to_the_given_number_of_lesions_are_painted():
    counts = set()
    for sample in range(30):
        changed = painted(sample, lesion_count=3, lesion_diameter=(2, 2))[1] != volume()[1]
        counts.add(ndimage.label(changed, np.ones((3, 3, 3)))[1])
    assert counts == {1, 2, 3}


def test_probability_and_volumes_without_liver():
    unchanged = [np.array_equal(painted(sample, lesions=0.5)[1], volume()[1]) for sample in range(20)]
    assert 3 < sum(unchanged) < 17
    image, labels = volume()
    for absent in (np.zeros_like(labels), np.where(labels == 1, 0, labels).astype(np.uint8)):
        found = painted(0, image, absent)
        np.testing.assert_array_equal(found[0], image)
        np.testing.assert_array_equal(found[1], absent)
