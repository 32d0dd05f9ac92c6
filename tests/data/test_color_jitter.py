"""Random colors: the formulas against Pillow and colorsys, and their independence of regions and other options."""

import colorsys
import itertools

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageEnhance

from mtf_imaging.data.pixels.color_jitter import Colors, draw_colors, jitter_colors
from mtf_imaging.errors import ConfigError
from mtf_imaging.kinds.objects.data_set import ObjectAugmentation, Objects
from mtf_imaging.kinds.photos.data_set import PhotoAugmentation, Photos
from tests.jobs.photo_network import write_photos
from tests.kinds.coco_folder import make_annotation, make_fields, write_folder

PIXELS = np.random.default_rng(0).integers(0, 256, (7, 9, 3)).astype(np.uint8)
SSD = {"brightness": 0.125, "contrast": 0.5, "saturation": 0.5, "hue": 0.05}


def jitter(pixels, **colors):
    return jitter_colors(tf.constant(pixels, tf.float32), Colors(**colors)).numpy()


@pytest.mark.parametrize("factor", [0.0, 0.4, 1.0, 1.7])
def test_brightness_and_saturation_are_those_of_pillow(factor):
    picture = Image.fromarray(PIXELS)
    bright = np.asarray(ImageEnhance.Brightness(picture).enhance(factor))
    np.testing.assert_allclose(jitter(PIXELS, brightness=factor), bright, atol=1)
    saturated = np.asarray(ImageEnhance.Color(picture).enhance(factor))
    np.testing.assert_allclose(jitter(PIXELS, saturation=factor), saturated, atol=1.5)  # Pillow rounds the gray


def test_contrast_is_relative_to_the_middle_of_the_range():
    found = jitter(np.array([[0.0, 127.5, 200.0], [27.5, 255, 100]]), contrast=1.5)
    np.testing.assert_allclose(found, [[0, 127.5, 236.25], [0, 255, 86.25]])
    np.testing.assert_allclose(jitter(PIXELS, contrast=0.0), 127.5)


@pytest.mark.parametrize("change", [-0.5, -0.04, 0.0, 0.3])
def test_the_hue_moves_along_the_circle(change):
    found = jitter(PIXELS, hue=change) / 255
    for pixel, own in zip(PIXELS.reshape(-1, 3) / 255, found.reshape(-1, 3), strict=True):
        hue, saturation, value = colorsys.rgb_to_hsv(*pixel)
        np.testing.assert_allclose(own, colorsys.hsv_to_rgb((hue + change) % 1, saturation, value), atol=1e-4)


def test_changes_follow_each_other_and_are_clipped():
    colors = {"brightness": 1.1, "contrast": 1.4, "saturation": 0.3, "hue": 0.1}
    expected = PIXELS
    for name, value in colors.items():
        expected = jitter(expected, **{name: value})
    np.testing.assert_array_equal(jitter(PIXELS, **colors), expected)
    assert expected.min() >= 0
    assert expected.max() <= 255
    np.testing.assert_array_equal(jitter(PIXELS), PIXELS)


def test_a_region_has_the_colors_of_the_whole():
    colors = {"brightness": 0.9, "contrast": 1.4, "saturation": 0.3, "hue": 0.1}
    np.testing.assert_array_equal(jitter(PIXELS[2:5, 3:], **colors), jitter(PIXELS, **colors)[2:5, 3:])


def test_factors_are_uniform_and_depend_only_on_the_seed_and_the_sample():
    drawn = [draw_colors(tf.constant(sample, tf.int64), 3, ObjectAugmentation(**SSD)) for sample in range(200)]
    for name, middle in (("brightness", 1), ("contrast", 1), ("saturation", 1), ("hue", 0)):
        values = np.array([getattr(colors, name).numpy() for colors in drawn]) - middle
        assert abs(values).max() <= SSD[name] + 1e-6
        assert np.ptp(values) > 1.9 * SSD[name]
        assert abs(values.mean()) < 0.15 * SSD[name]
    again = draw_colors(tf.constant(7, tf.int64), 3, PhotoAugmentation(hue=0.05, saturation=0.5))
    assert (float(again.hue), float(again.saturation)) == (float(drawn[7].hue), float(drawn[7].saturation))
    assert again.brightness is None, "off by default"
    assert draw_colors(tf.constant(7, tf.int64), 3, ObjectAugmentation()) == Colors()
    assert draw_colors(tf.constant(7, tf.int64), 3, None) == Colors()


@pytest.mark.parametrize("augmentation", [ObjectAugmentation, PhotoAugmentation])
@pytest.mark.parametrize("wrong", [{"brightness": -0.1}, {"contrast": 1.1}, {"saturation": "a"}, {"hue": 0.6}], ids=str)
def test_wrong_ranges_are_refused(augmentation, wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(ConfigError, match=rf"^{augmentation.__name__}\.{name} = .*: it must be a number of at"):
        augmentation(**{name: value})


@pytest.mark.parametrize("kind", ["objects", "photos"])
def test_batches_differ_only_in_their_colors(tmp_path, kind):
    """Padding stays 0, and crops, flips and labels are the same as without new colors."""
    if kind == "photos":
        folder, data_set, augmentation = write_photos(tmp_path), Photos, PhotoAugmentation
        options = {"split": None, "scaling": "unit"}
    else:
        annotations = [make_annotation(1, 11, 1, (2, 3, 9, 7)), make_annotation(2, 12, 3, (1, 1, 5, 5))]
        folder = write_folder(tmp_path, make_fields([(12, 14), (9, 20)], annotations))
        data_set, augmentation, options = Objects, ObjectAugmentation, {"scaling": "unit"}

    def batches(**colors):
        stream = data_set(**options, augmentation=augmentation(**colors)).batches(
            folder, batch_size=2, sizes=(16, 18), seed=3, start_step=1
        )
        return [{k: x if k == "cases" else x.numpy() for k, x in each.items()} for each in itertools.islice(stream, 3)]

    for plain, colored, again in zip(batches(), batches(**SSD), batches(**SSD), strict=True):
        for name in plain:
            if name != "image":
                np.testing.assert_array_equal(plain[name], colored[name])
        np.testing.assert_array_equal(colored["image"], again["image"])
        assert np.abs(colored["image"] - plain["image"]).max() > 0.02
        padding = (plain["image"] == 0).all(axis=-1)
        assert (colored["image"][padding] == 0).all()
    for plain, colored in zip(batches(), batches(brightness=0.5), strict=True):
        for number in range(2):
            values, bright = (127.5 * (x["image"][number] + 1) for x in (plain, colored))
            inside = (plain["image"][number] != 0).any(axis=-1)
            ratio = np.median(bright[inside] / np.maximum(values[inside], 1e-3))
            np.testing.assert_allclose(bright[inside], np.clip(values[inside] * ratio, 0, 255), atol=1e-2)
