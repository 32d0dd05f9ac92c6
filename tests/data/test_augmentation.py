"""Tests the effect of each augmentation on a sample."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from scipy.ndimage import gaussian_filter1d

from mtf_imaging.data.augmentation import Augmentation
from mtf_imaging.data.augmentation.draws import Draws
from mtf_imaging.errors import ConfigError, DataError

SIZES = (16, 20, 12)
OPTIONS = {
    "flips": {"flips": ("x", "y", "z")},
    "half_turn": {"half_turn": 0.5},
    "affine": {"rotation": (0, 0, 15), "zoom": 0.1, "translation": 0.1},
    "elastic": {"elastic": 0.04},
    "classes": {"class_shift": 0.05, "class_shift_sd": 0.05},
    "corruption": {"corruption": 0.2, "corruption_sd": 0.1},
    "gamma": {"gamma": 0.5},
    "contrast": {"contrast": 0.2},
    "brightness": {"brightness": 0.1},
    "noise": {"noise": 0.05},
    "multiscale_noise": {"multiscale_noise": 0.05},
    "lesions": {"lesions": 0.5, "lesion_diameter": (3, 7)},
    "blur": {"blur": 0.8, "blur_sd": (0.4, 1.2)},
    "low_resolution": {"low_resolution": 0.8, "low_resolution_size": (0.3, 1)},
}
ALL = Augmentation(**{name: value for option in OPTIONS.values() for name, value in option.items()})
MOVE, PAINT = {"flips", "half_turn", "affine", "elastic"}, {"lesions"}  # these change labels


def volume(channels=1):
    """Returns a random image, and labels with a box of liver (1) that contains a lesion (2)."""
    image = np.random.default_rng(0).uniform(0.2, 0.8, (*SIZES, channels)).astype(np.float32)
    labels = np.zeros(SIZES, np.uint8)
    labels[2:12, 3:15, 2:10] = 1
    labels[4:7, 5:8, 4:6] = 2
    return image, labels


def augmented(augmentation, sample=0, seed=3, image=None, labels=None):
    image, labels = (mine if given is None else given for mine, given in zip(volume(), (image, labels)))
    found = augmentation(tf.constant(image), tf.constant(labels), seed, tf.constant(sample, tf.int64))
    return tuple(x.numpy() for x in found)


def test_the_default_changes_nothing():
    for mine, found in zip(volume(), augmented(Augmentation())):
        np.testing.assert_array_equal(found, mine)


def test_the_oldest_options_draw_the_same_numbers_as_in_the_first_release():
    """Runs of releases that had only these options must resume with the same samples."""
    augmentation = Augmentation(flips=("x", "z"), brightness=0.1, contrast=0.2, noise=0.05)
    for sample in range(8):
        image, labels = volume()
        seeds = tf.random.experimental.stateless_split(tf.constant([3, sample], tf.int64), 6)
        for axis in (0, 2):
            if tf.random.stateless_uniform([], seeds[axis]) < 0.5:
                image, labels = np.flip(image, axis), np.flip(labels, axis)
        image = 0.5 + (image - 0.5) * tf.random.stateless_uniform([], seeds[3], 1 - 0.2, 1 + 0.2)
        image = image + tf.random.stateless_uniform([], seeds[4], -0.1, 0.1)
        image = image + tf.random.stateless_normal(image.shape, seeds[5], stddev=0.05)
        found = augmented(augmentation, sample)
        np.testing.assert_array_equal(found[0], np.clip(image, 0, 1))
        np.testing.assert_array_equal(found[1], labels)


@pytest.mark.mostly_slow(fast=0.1)
@pytest.mark.parametrize("name", [*OPTIONS, "all"])
@pytest.mark.parametrize("channels", [1, 2])
def test_a_sample_depends_only_on_seed_and_number_and_stays_valid(name, channels):
    augmentation = ALL if name == "all" else Augmentation(**OPTIONS[name])
    image, labels = volume(channels)
    graph = tf.function(lambda sample: augmentation(tf.constant(image), tf.constant(labels), 3, sample))
    seen = []
    for sample in range(6):
        found = [x.numpy() for x in graph(tf.constant(sample, tf.int64))]
        again = [x.numpy() for x in graph(tf.constant(sample, tf.int64))]
        for one, other, mine in zip(found, again, (image, labels)):
            np.testing.assert_array_equal(one, other)
            assert (one.shape, one.dtype) == (mine.shape, mine.dtype)
        assert 0 <= found[0].min() <= found[0].max() <= 1
        assert set(np.unique(found[1])) <= {0, 1, 2}
        if name not in MOVE | PAINT | {"all"}:
            np.testing.assert_array_equal(found[1], labels)
        seen.append(b"".join(x.tobytes() for x in found))
    assert len(set(seen)) > 1
    assert any(one != image.tobytes() + labels.tobytes() for one in seen)


def test_draws_of_an_option_do_not_depend_on_other_options():
    moving = {name: value for option in MOVE for name, value in OPTIONS[option].items()}
    for sample in range(4):
        alone, together = (
            augmented(Augmentation(**o), sample)[1] for o in (moving, moving | {"gamma": 0.5, "noise": 1})
        )
        np.testing.assert_array_equal(alone, together)


def test_a_half_turn_is_about_z():
    image, labels = augmented(Augmentation(half_turn=1.0))
    np.testing.assert_array_equal(image, volume()[0][::-1, ::-1])
    np.testing.assert_array_equal(labels, volume()[1][::-1, ::-1])


def test_lesions_are_darkened_and_other_voxels_are_brightened():
    image, labels = volume()
    found, _ = augmented(Augmentation(class_shift=0.1))
    expected = image * np.where(labels == 2, 0.9, 1.1)[..., None]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_corruption_blanks_its_share_of_the_background(share):
    image, labels = volume()
    found, _ = augmented(Augmentation(corruption=share))
    np.testing.assert_array_equal(found[labels > 0], image[labels > 0])
    blank = found[labels == 0] == 0
    assert blank.mean() == pytest.approx(share, abs=0.02)  # several voxels at the threshold can have one value
    np.testing.assert_array_equal(found[labels == 0][~blank], image[labels == 0][~blank])


def test_corruption_without_background_and_with_subsampled_thresholds():
    image, labels = np.full((4, 4, 4, 1), 0.5, np.float32), np.ones((4, 4, 4), np.uint8)
    np.testing.assert_array_equal(augmented(Augmentation(corruption=0.9), image=image, labels=labels)[0], image)
    image, labels = np.full((70, 33, 4, 1), 0.5, np.float32), np.zeros((70, 33, 4), np.uint8)
    found, _ = augmented(Augmentation(corruption=0.3), image=image, labels=labels)
    assert (found == 0).mean() == pytest.approx(0.3, abs=0.02)


def test_gamma_leaves_both_ends_of_the_window_and_the_order_of_values():
    image = np.linspace(0, 1, 64, dtype=np.float32).reshape(4, 4, 4, 1)
    for sample in range(5):
        found, _ = augmented(Augmentation(gamma=0.5), sample, image=image, labels=np.zeros((4, 4, 4), np.uint8))
        assert (found.min(), found.max()) == (0, 1)
        assert np.all(np.diff(found.ravel()) > 0)
        power = np.log(found.ravel()[32]) / np.log(image.ravel()[32])
        assert 1 / 1.5 - 1e-3 <= power <= 1.5 + 1e-3


def test_a_blur_is_that_of_scipy_and_independent_along_each_axis():
    image = np.random.default_rng(1).normal(0.5, 0.1, (9, 10, 1, 1)).astype(np.float32).clip(0, 1)
    labels, augmentation = np.zeros((9, 10, 1), np.uint8), Augmentation(blur=1, blur_sd=(0.5, 1.0))
    for sample in range(3):
        sds = Draws(3, sample).uniform("blur/amount", 0.5, 1.0, [3, 1]).numpy()[:, 0]
        expected = image[..., 0]
        for axis, sd in enumerate(sds):
            expected = gaussian_filter1d(expected, sd, axis, mode="nearest", truncate=3.1 / sd)  # 3 voxels
        found, _ = augmented(augmentation, sample, image=image, labels=labels)
        np.testing.assert_allclose(found[..., 0], expected, rtol=1e-4)


def test_a_lower_resolution_keeps_some_voxels_and_interpolates_between_them():
    image = np.random.default_rng(1).uniform(size=(8, 6, 5, 2)).astype(np.float32)
    labels = np.arange(240).reshape(8, 6, 5).astype(np.uint8)
    half = Augmentation(low_resolution=1, low_resolution_size=(0.5, 0.5), low_resolution_axes=("x",))
    found, same = augmented(half, image=image, labels=labels)
    kept = image[[1, 3, 5, 7]]  # coarse voxels have their middles at 0.5, 2.5, 4.5 and 6.5
    between = [kept[i] * (1 - part) + kept[i + 1] * part for i in range(3) for part in (0.25, 0.75)]
    np.testing.assert_allclose(found, [kept[0], *between, kept[3]], rtol=1e-5)
    np.testing.assert_array_equal(same, labels)
    every = augmented(dataclasses.replace(half, low_resolution_axes=("x", "y", "z")), image=image, labels=labels)[0]
    np.testing.assert_allclose(every[:1, :1, :1], image[1, 1, 0][None, None, None], rtol=1e-5)
    for name in ("blur", "low_resolution"):
        half = Augmentation(**{name: 0.5})
        changed = [(augmented(half, n, image=image, labels=labels)[0] != image).any((0, 1, 2)) for n in range(24)]
        assert 12 < np.sum(changed) < 36  # of 48 channels
        assert any(one != other for one, other in changed)


def test_noise_is_of_its_scale_and_of_its_probability():
    image = np.full((24, 24, 24, 1), 0.5, np.float32)
    labels = np.zeros((24, 24, 24), np.uint8)

    def correlation(scale):
        """Returns the correlation of neighboring voxels of the noise."""
        only = Augmentation(multiscale_noise=0.05, multiscale_noise_scales=(scale,))
        noise = augmented(only, image=image, labels=labels)[0] - 0.5
        assert 0 < noise.std() < 0.05
        return np.corrcoef(noise[1:].ravel(), noise[:-1].ravel())[0, 1]

    assert abs(correlation(1)) < 0.1
    assert correlation(4) > 0.8
    half = Augmentation(multiscale_noise=0.05, multiscale_noise_probability=0.5)
    unchanged = [np.array_equal(augmented(half, n, image=image, labels=labels)[0], image) for n in range(12)]
    assert 0 < sum(unchanged) < 12


def test_an_image_of_unknown_sizes_is_refused():
    signature = [tf.TensorSpec([None, None, None, 1]), tf.TensorSpec([None, None, None], tf.uint8)]

    @tf.function(input_signature=signature, autograph=False)
    def traced(image, labels):
        return ALL(image, labels, 0, tf.constant(0, tf.int64))

    with pytest.raises(
        DataError, match=r"shape \(None, None, None, 1\) does not have static sizes.*Fix: call image.set_shape"
    ):
        traced.get_concrete_function()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"flips": ("t",)}, r"Augmentation.flips = \('t',\): it must be a tuple .* is one of 'x', 'y', 'z'"),
        ({"half_turn": 1.5}, r"Augmentation.half_turn = 1.5: it must be a number of at least 0 and at most 1"),
        ({"lesions": -0.1}, r"Augmentation.lesions = -0.1: it must be a number of at least 0 and at most 1"),
        ({"warp": "often"}, r"Augmentation.warp = 'often': it must be a number"),
        ({"noise": -0.1}, r"Augmentation.noise = -0.1: it must be a number of at least 0"),
        ({"corruption_sd": float("nan")}, r"Augmentation.corruption_sd = nan: it must be a number of at least 0"),
        ({"rotation": (0, 0, 200)}, r"Augmentation.rotation = \(0, 0, 200\): it must be a number .* at most 180"),
        ({"rotation": (0, 15)}, r"Augmentation.rotation = \(0, 15\): it must be .* or a tuple of 3 elements"),
        (
            {"elastic": 0.2},
            r"elastic 0.2: with 7 control points .* fold over. Fix: set elastic to at most 0.05, or use fewer",
        ),
        ({"elastic_points": 3}, r"Augmentation.elastic_points = 3: it must be an int of at least 4"),
        (
            {"multiscale_noise_scales": ()},
            r"multiscale_noise_scales = \(\): it must be a tuple in which each",
        ),
        ({"lesion_count": 0}, r"Augmentation.lesion_count = 0: it must be an int of at least 1"),
        (
            {"lesion_diameter": (9, 4)},
            r"lesion_diameter = \(9, 4\): is not ascending. Fix: exchange",
        ),
        ({"blur_sd": (0, 1)}, r"Augmentation.blur_sd = \(0, 1\): it must be a tuple of 2 elements .* above 0"),
        ({"blur_sd": (2, 1)}, r"blur_sd = \(2, 1\): is not ascending. Fix: exchange"),
        ({"low_resolution_size": (0.5, 1.5)}, r"low_resolution_size = \(0.5, 1.5\): it must be .* at most 1"),
        ({"low_resolution_axes": ("t",)}, r"low_resolution_axes = \('t',\): it must be .* one of 'x', 'y', 'z'"),
        ({"lesion_contrast": 0.1}, r"Augmentation.lesion_contrast = 0.1: it must be a tuple of 2 elements"),
    ],
)
def test_wrong_values_are_reported_with_the_fix(options, text):
    with pytest.raises(ConfigError, match=text):
        Augmentation(**options)


def test_every_option_is_tested_here():
    tried = {name for option in OPTIONS.values() for name in option}
    rest = {"warp", "elastic_points", "lesion_count", "lesion_contrast"}
    rest |= {"multiscale_noise_scales", "multiscale_noise_probability", "low_resolution_axes"}
    assert {field.name for field in dataclasses.fields(Augmentation)} == tried | rest
