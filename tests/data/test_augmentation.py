"""What each augmentation does to a sample, and what none does."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from mtf_imaging.data.augmentation import Augmentation
from mtf_imaging.errors import DataError

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
}
ALL = Augmentation(**{name: value for option in OPTIONS.values() for name, value in option.items()})
MOVE, PAINT = {"flips", "half_turn", "affine", "elastic"}, {"lesions"}  # these change labels


def volume(channels=1):
    """A random image with a box of liver, 1, and a lesion, 2, in it."""
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


def test_the_first_four_options_draw_what_they_always_drew():
    """So that a run that began before there were others goes on with the same samples."""
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


@pytest.mark.parametrize("name", [*OPTIONS, "all"])
@pytest.mark.parametrize("channels", [1, 2])
def test_a_sample_is_a_function_of_seed_and_number_and_stays_what_it_is(name, channels):
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


def test_an_option_draws_the_same_whatever_others_are_in_use():
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


def test_lesions_are_darkened_and_all_else_is_brightened():
    image, labels = volume()
    found, _ = augmented(Augmentation(class_shift=0.1))
    expected = image * np.where(labels == 2, 0.9, 1.1)[..., None]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_corruption_blots_out_its_share_of_what_is_no_liver(share):
    image, labels = volume()
    found, _ = augmented(Augmentation(corruption=share))
    np.testing.assert_array_equal(found[labels > 0], image[labels > 0])
    gone = found[labels == 0] == 0
    assert gone.mean() == pytest.approx(share, abs=0.02)  # at the border several voxels are at one level
    np.testing.assert_array_equal(found[labels == 0][~gone], image[labels == 0][~gone])


def test_corruption_of_nothing_but_liver_and_of_volumes_beyond_what_is_sorted():
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


def test_noise_is_of_its_scale_and_of_its_probability():
    image = np.full((24, 24, 24, 1), 0.5, np.float32)
    labels = np.zeros((24, 24, 24), np.uint8)

    def neighbours(scale):
        """How alike neighbouring voxels are."""
        only = Augmentation(multiscale_noise=0.05, multiscale_noise_scales=(scale,))
        noise = augmented(only, image=image, labels=labels)[0] - 0.5
        assert 0 < noise.std() < 0.05
        return np.corrcoef(noise[1:].ravel(), noise[:-1].ravel())[0, 1]

    assert abs(neighbours(1)) < 0.1
    assert neighbours(4) > 0.8
    half = Augmentation(multiscale_noise=0.05, multiscale_noise_probability=0.5)
    unchanged = [np.array_equal(augmented(half, n, image=image, labels=labels)[0], image) for n in range(12)]
    assert 0 < sum(unchanged) < 12


def test_an_image_of_unknown_sizes_is_refused():
    signature = [tf.TensorSpec([None, None, None, 1]), tf.TensorSpec([None, None, None], tf.uint8)]

    @tf.function(input_signature=signature, autograph=False)
    def traced(image, labels):
        return ALL(image, labels, 0, tf.constant(0, tf.int64))

    with pytest.raises(DataError, match=r"shape \(None, None, None, 1\): needs known sizes.*Fix: image.set_shape"):
        traced.get_concrete_function()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"flips": ("t",)}, r"flips \['t'\]: no axes of a volume. Fix: choose among x, y, z"),
        ({"half_turn": 1.5}, r"Augmentation.half_turn 1.5: is no number from 0 to 1. Fix"),
        ({"lesions": -0.1}, r"Augmentation.lesions -0.1: is no number from 0 to 1"),
        ({"warp": "often"}, r"Augmentation.warp 'often': is no number"),
        ({"noise": -0.1}, r"Augmentation.noise -0.1: is no number 0 or more"),
        ({"corruption_sd": float("nan")}, r"Augmentation.corruption_sd nan: is no number 0 or more"),
        ({"rotation": (0, 0, 200)}, r"Augmentation.rotation 200: is no number from 0 to 180"),
        ({"rotation": (0, 15)}, r"Augmentation.rotation \(0, 15\): needs one angle, or three. Fix: \(0, 0, 15\)"),
        ({"elastic": 0.2}, r"elastic 0.2: with 7 control points .* fold over. Fix: at most 0.05, or fewer"),
        ({"elastic_points": 3}, r"Augmentation.elastic_points 3: is no whole number of 4 or more"),
        ({"multiscale_noise_scales": ()}, r"multiscale_noise_scales \(\): needs whole numbers of 1 or more"),
        ({"lesion_count": 0}, r"Augmentation.lesion_count 0: is no whole number of 1 or more"),
        (
            {"lesion_diameter": (9, 4)},
            r"Augmentation.lesion_diameter \(9, 4\): is no range .* Fix: give \(lowest, highest\)",
        ),
        ({"lesion_contrast": 0.1}, r"Augmentation.lesion_contrast 0.1: is no range of numbers of 0 to 1"),
    ],
)
def test_wrong_values_are_told_with_the_fix(options, text):
    with pytest.raises(DataError, match=text):
        Augmentation(**options)


def test_every_option_is_tried_here():
    tried = {name for option in OPTIONS.values() for name in option}
    rest = {"warp", "elastic_points", "lesion_count", "lesion_contrast"}
    rest |= {"multiscale_noise_scales", "multiscale_noise_probability"}
    assert {field.name for field in dataclasses.fields(Augmentation)} == tried | rest
