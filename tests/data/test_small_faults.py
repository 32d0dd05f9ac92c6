"""Small cases of data that only one fault of the code breaks; `tests/mutants` lists these faults."""

import itertools

import nibabel
import numpy as np
import pytest
import tensorflow as tf
from nibabel import orientations

from mtf_imaging.data.augmentation import Augmentation
from mtf_imaging.data.augmentation.draws import Draws
from mtf_imaging.data.augmentation.intensity import apply_gamma
from mtf_imaging.data.augmentation.moves import Moves
from mtf_imaging.data.augmentation.normals import normal_values
from mtf_imaging.data.augmentation.warp import draw_warp
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.sampling.grid import whole_region
from mtf_imaging.data.sampling.interpolation import axis_order
from mtf_imaging.data.sampling.sampling import whole_field

ALL_CODES = [
    "".join(codes) for axes in itertools.permutations(("RL", "AP", "SI")) for codes in itertools.product(*axes)
]


def test_gamma_brightens_as_often_as_it_darkens():
    image = tf.fill([1, 1, 1, 1], 0.5)
    values = [float(apply_gamma(image, 1.0, Draws(0, number))[0, 0, 0, 0]) for number in range(40)]
    assert 10 < sum(value > 0.5 for value in values) < 30


def multiscale_noise(sample, channels=1):
    """Returns the noise of single voxels, `[8, 8, 8, channels]`."""
    image = np.full((8, 8, 8, channels), 0.5, np.float32)
    augmentation = Augmentation(multiscale_noise=0.1, multiscale_noise_scales=(1,), multiscale_noise_probability=1.0)
    noisy, _ = augmentation(tf.constant(image), tf.zeros([8, 8, 8], tf.uint8), 3, tf.constant(sample, tf.int64))
    return noisy.numpy() - image


def test_the_amount_of_noise_varies_from_sample_to_sample():
    amounts = [multiscale_noise(sample).std() for sample in range(16)]
    assert min(amounts) < 0.03
    assert 0.06 < max(amounts) < 0.1


def test_channels_get_their_own_noise():
    first, second = np.moveaxis(multiscale_noise(0, channels=2), 3, 0)
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.2


def test_normal_values_of_planes_are_those_of_the_whole_sample():
    """The planes and regions begin at values that are not multiples of four."""
    seed, sizes = tf.constant([7, 8], tf.int64), (3, 3, 5)
    expected = tf.random.stateless_normal([*sizes, 1], seed).numpy()
    for region in ((slice(1, 3), slice(0, 3), slice(0, 5)), (slice(1, 3), slice(1, 3), slice(2, 5))):
        np.testing.assert_array_equal(normal_values(seed, sizes, region), expected[region])


@pytest.mark.parametrize("warped", [None, False, True])
def test_sampled_labels_are_those_of_the_moved_sample(warped):
    sizes, mirrored = (7, 6, 5), [True, False, True]
    labels = np.random.default_rng(0).integers(1, 200, sizes).astype(np.uint8)
    warp = draw_warp(Draws(3, 0), sizes, rotation=(0.0, 0.0, 20.0), zoom=0.1, translation=0.2, elastic=0.02, points=5)
    moves = Moves(sizes, tf.constant(mirrored), None if warped is None else tf.constant(warped), warp)
    whole = tf.constant([[0, n] for n in sizes], tf.int64)
    image = tf.zeros([*sizes, 1])
    _, moved = moves.move(image, tf.constant(labels), whole, whole_region(sizes), 0.0)
    if not warped:
        np.testing.assert_array_equal(moved, labels[::-1, :, ::-1])
    assert 0.5 < np.mean(moved.numpy() > 0) <= 1
    for first, step in ((0, 1), (1, 2)):
        voxels = tuple(slice(first, n, step) for n in sizes)
        np.testing.assert_array_equal(moves.labels_at(tf.constant(labels), voxels), moved.numpy()[voxels])


def test_the_axis_that_shrinks_most_is_interpolated_first():
    shape = (8, 6, 4)
    assert axis_order(shape, whole_field(shape, (8, 3, 1))) == [2, 1, 0]
    assert axis_order(shape, whole_field(shape, (2, 6, 8))) == [0, 1, 2]
    assert axis_order(shape, whole_field(shape, (16, 1, 4))) == [1, 2, 0]


@pytest.mark.parametrize("codes", ALL_CODES)
def test_geometry_of_every_orientation(codes):
    """The regions and planes of a file hold the same voxels as those of the image that nibabel reorients to RAS."""
    shape = (4, 3, 2)
    turn = orientations.ornt_transform(orientations.axcodes2ornt(codes), orientations.axcodes2ornt("RAS"))
    affine = np.linalg.inv(orientations.inv_ornt_aff(turn, shape))
    image = nibabel.Nifti1Image(np.arange(24, dtype=np.int16).reshape(shape), affine)
    stored, canonical = (np.asarray(each.dataobj) for each in (image, nibabel.as_closest_canonical(image)))
    geometry = Geometry(image.header, image.affine)
    assert geometry.axis_codes == codes
    assert geometry.shape == canonical.shape
    np.testing.assert_array_equal(geometry.to_canonical(stored), canonical)
    np.testing.assert_array_equal(geometry.to_stored(canonical), stored)

    region = tuple(slice(n // 2, n) for n in canonical.shape)
    part = geometry.stored_region(region)
    np.testing.assert_array_equal(np.sort(stored[part], None), np.sort(canonical[region], None))
    assert geometry.canonical_region(part) == region

    axis, order = geometry.plane_order.axis, 1 if geometry.plane_order.ascending else -1
    planes = np.moveaxis(canonical, axis, 0)[::order]
    for plane, expected in zip(planes, np.moveaxis(stored, 2, 0), strict=True):
        assert set(plane.ravel()) == set(expected.ravel())
