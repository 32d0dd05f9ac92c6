"""Tests that image and labels are warped together, by the documented formula."""

import numpy as np
import pytest
import tensorflow as tf
from scipy.interpolate import BSpline

from mtf_imaging.data.augmentation import warp as warps
from mtf_imaging.data.augmentation.draws import Draws
from mtf_imaging.data.augmentation.warp import draw_warp, warp

SIZES = (12, 9, 14)
DRAWN = {"rotation": (5.0, 10.0, 20.0), "zoom": 0.2, "translation": 0.1, "elastic": 0.05, "points": 6}


def voxels(sizes=SIZES):
    return np.stack(np.meshgrid(*(np.arange(n) for n in sizes), indexing="ij"), -1).astype(np.float64)


def grid_image(sizes=SIZES):
    """Returns an image whose channels are x, y, z and 1 at each voxel, and random labels."""
    image = np.concatenate([voxels(sizes), np.ones((*sizes, 1))], -1).astype(np.float32)
    return image, np.random.default_rng(0).integers(0, 3, sizes).astype(np.uint8)


def moved(affine, translation, bends=None, sizes=SIZES):
    image, labels = grid_image(sizes)
    found = warp(tf.constant(image), tf.constant(labels), *(None if x is None else tf.constant(x, tf.float32)
                                                            for x in (affine, translation, bends)))  # fmt: skip
    return found[0].numpy(), found[1].numpy()


def spline(n, points):
    """Returns SciPy's weights `[n, points]` of a cubic B-spline with `points - 3` intervals on the axis."""
    at = (np.arange(n) + 0.5) / n * (points - 3)
    return np.stack([BSpline(np.arange(-3, points + 1), unit, 3)(at) for unit in np.eye(points)], 1)


def drawn(sample, **options):
    affine, translation, bends = draw_warp(Draws(3, tf.constant(sample, tf.int64)), SIZES, **DRAWN | options)
    return affine.numpy(), translation.numpy(), None if bends is None else bends.numpy()


@pytest.mark.mostly_slow(fast=0.5)
@pytest.mark.parametrize("slab", [1, 3 * 9 * 14, 1 << 15])
@pytest.mark.parametrize("sample", range(3))
def test_labels_come_from_the_same_voxels_as_the_image(sample, slab, monkeypatch):
    monkeypatch.setattr(warps, "_SLAB", slab)
    affine, translation, bends = drawn(sample)
    image, labels = moved(affine, translation, bends)
    center = (np.array(SIZES) - 1) / 2
    expected = (voxels() - center) @ affine.astype(np.float64).T + center + translation
    expected += np.einsum("xa,yb,zc,abcd->xyzd", *(spline(n, len(bends)) for n in SIZES), bends)

    inside = np.all((expected >= 0) & (expected <= np.array(SIZES) - 1), -1)
    assert 0.4 < inside.mean() < 1
    np.testing.assert_allclose(
        image[inside][:, :3], expected[inside], atol=1e-4
    )  # interpolation reproduces a ramp exactly
    np.testing.assert_allclose(image[inside][:, 3], 1, atol=1e-5)
    unambiguous = inside & np.all(np.abs(expected % 1 - 0.5) > 1e-3, -1)  # not halfway between two voxels
    nearest = tuple(np.rint(expected[unambiguous]).astype(int).T)
    np.testing.assert_array_equal(labels[unambiguous], grid_image()[1][nearest])

    beyond = np.any((expected <= -1) | (expected >= SIZES), -1)
    assert beyond.any()
    assert not image[beyond].any()
    assert not labels[beyond].any()


def test_an_identity_warp_changes_nothing():
    image, labels = moved(np.eye(3), np.zeros(3), np.zeros((5, 5, 5, 3)))
    np.testing.assert_allclose(image, grid_image()[0], atol=1e-5)
    np.testing.assert_array_equal(labels, grid_image()[1])


def test_whole_voxels_and_quarter_turns_are_exact():
    image, labels = moved(np.eye(3), [2, -1, 0])
    np.testing.assert_array_equal(labels[:-2, 1:], grid_image()[1][2:, :-1])
    np.testing.assert_allclose(image[:-2, 1:], grid_image()[0][2:, :-1], atol=1e-5)
    assert not labels[-2:].any()
    cube = (6, 6, 5)
    image, labels = moved(warps._turn(tf.constant([0, 0, np.pi / 2], tf.float32)), np.zeros(3), sizes=cube)
    source = grid_image(cube)
    np.testing.assert_array_equal(labels, np.rot90(source[1], axes=(1, 0)))
    np.testing.assert_allclose(image, np.rot90(source[0], axes=(1, 0)), atol=1e-5)


@pytest.mark.parametrize("axis", range(3))
def test_a_rotation_is_about_its_axis(axis):
    turn = warps._turn(tf.one_hot(axis, 3) * 0.3).numpy()
    np.testing.assert_allclose(turn @ turn.T, np.eye(3), atol=1e-6)
    np.testing.assert_allclose(turn @ np.eye(3)[axis], np.eye(3)[axis], atol=1e-6)
    assert np.linalg.det(turn) == pytest.approx(1)
    assert turn[(axis + 2) % 3, (axis + 1) % 3] == pytest.approx(np.sin(0.3))


def test_draws_stay_within_their_ranges():
    volumes = []
    for sample in range(30):
        affine, translation, bends = drawn(sample)
        volumes.append(np.linalg.det(affine))
        assert 1 / 1.2**3 - 1e-5 <= volumes[-1] <= 1.2**3 + 1e-5
        assert np.all(np.abs(translation) <= 0.1 * np.array(SIZES))
        assert np.all(np.abs(bends) <= 2 * 0.05 * np.array(SIZES) + 1e-5)
        only_z = drawn(sample, rotation=(0.0, 0.0, 20.0), zoom=0.0, elastic=0.0)
        assert only_z[2] is None
        np.testing.assert_allclose(only_z[0][2], [0, 0, 1], atol=1e-6)
        assert only_z[0][0, 0] >= np.cos(np.radians(20)) - 1e-6
    assert 5 < sum(volume < 1 for volume in volumes) < 25  # some samples are magnified, others are reduced


def test_the_strongest_elastic_warp_does_not_fold():
    points, sizes = 7, (40, 40, 40)
    widest = 0.4 / (points - 3)
    signs = np.sign(np.random.default_rng(1).normal(size=(points,) * 3 + (3,)))
    image, _ = moved(np.eye(3), np.zeros(3), signs * widest * np.array(sizes), sizes=sizes)
    inside = image[..., 3] > 0.999
    for axis in range(3):
        step = np.diff(image[..., axis], axis=axis)
        both = np.delete(inside, 0, axis) & np.delete(inside, -1, axis)
        assert step[both].min() > 0
