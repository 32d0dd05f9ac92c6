"""Whole photos through networks that are plain functions: sizes, scales, flips, held-out scores and batches."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from mtf_imaging.data.pixels.scaling import MEAN
from mtf_imaging.errors import DataError, ShapeError
from mtf_imaging.kinds.batches import batch_network, batches
from mtf_imaging.kinds.output import scaled_size
from mtf_imaging.kinds.photos.description import PhotoDescription
from mtf_imaging.kinds.photos.infer import PhotoInference, most_probable, predict_photos
from mtf_imaging.kinds.photos.pictures import LabeledPhoto, comparison, difference, overlay
from mtf_imaging.kinds.photos.reading.label_images import write_label_image
from mtf_imaging.kinds.photos.resize import resize_bilinear
from mtf_imaging.kinds.photos.scoring.confusion import Confusion, confusion
from mtf_imaging.kinds.photos.training import HeldOutPhotos

TWO = PhotoDescription(("dark", "bright"), ((0, 0, 0), (250, 200, 0)))
CROP, MULTIPLE = (8, 10), 4


def predict_photo(photo, network, scales=(1.0,), flips=()):
    own = PhotoInference(TWO, CROP, MULTIPLE, scales, flips)
    return predict_photos([photo], batch_network(network), own)[0]


def photo_of(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.uint8)


def brightness(image):
    """Returns the mean color as the probability of the second class; works on each pixel alone."""
    bright = (image.mean(axis=-1) + 1) / 2
    return np.stack([1 - bright, bright], axis=-1)


def position(image):
    """Returns the column as the probability of the second class: a network that sees the borders of its image."""
    columns = np.broadcast_to(np.arange(image.shape[1], dtype=np.float32), image.shape[:2])
    return np.stack([-columns, columns], axis=-1)


@pytest.mark.parametrize(
    ("size", "padded"), [((8, 10), (8, 10)), ((5, 7), (8, 10)), ((9, 7), (12, 10)), ((16, 21), (16, 24))]
)
def test_the_network_sees_a_padded_photo_and_the_result_has_the_size_of_the_photo(size, padded):
    images = []

    def network(image):
        images.append(image)
        return brightness(image)

    photo = photo_of(*size)
    probabilities = predict_photo(photo, network)
    (image,) = images
    assert (image.shape, image.dtype) == ((*padded, 3), np.float32)
    np.testing.assert_allclose(image[: size[0], : size[1]], photo / 127.5 - 1, atol=1e-6)
    assert not image[size[0] :].any()
    assert not image[:, size[1] :].any()
    assert (probabilities.shape, probabilities.dtype) == ((*size, 2), np.float32)
    np.testing.assert_allclose(probabilities[..., 1], photo.mean(axis=-1) / 255, atol=1e-6)


def test_flips_are_flips_of_the_photo_and_not_of_its_padding():
    photo = photo_of(5, 7)
    result = predict_photo(photo, position, flips=("width",))
    np.testing.assert_allclose(result[..., 1], 3.0)  # the mean of column n and column 6 - n
    kept = predict_photo(photo, position, flips=("height",))
    np.testing.assert_array_equal(kept, predict_photo(photo, position))


def test_a_network_of_single_pixels_does_not_change_with_flips():
    photo, calls = photo_of(6, 9), []

    def network(image):
        calls.append(image)
        return brightness(image)

    flipped = predict_photo(photo, network, flips=("height", "width"))
    assert len(calls) == 4
    np.testing.assert_allclose(flipped, predict_photo(photo, brightness), atol=1e-6)


def test_scales_are_averaged_at_the_size_of_the_photo():
    photo, sizes = photo_of(6, 9), []

    def network(image):
        sizes.append(image.shape[:2])
        return brightness(image)

    result = predict_photo(photo, network, scales=(0.5, 1.0, 2.0))
    assert sizes == [(8, 10), (8, 10), (12, 20)]
    expected = []
    for size in ((3, 4), (6, 9), (12, 18)):
        resized = tf.image.resize(photo.astype(np.float32), size).numpy()
        expected.append(tf.image.resize(resized.mean(axis=-1, keepdims=True) / 255, (6, 9)).numpy()[..., 0])
    np.testing.assert_allclose(result[..., 1], np.mean(expected, axis=0), atol=1e-5)
    assert scaled_size((6, 9), 0.5) == (3, 4)


@pytest.mark.parametrize("size", [(3, 4), (6, 9), (13, 5), (1, 20), (12, 18)])
def test_resizing_equals_tensorflow(size):
    array = np.random.default_rng(1).normal(size=(6, 9, 2)).astype(np.float32)
    found = resize_bilinear(array, size)
    assert (found.shape, found.dtype) == ((*size, 2), np.float32)
    np.testing.assert_allclose(found, tf.image.resize(array, size).numpy(), atol=1e-5)  # its positions are float32


def test_the_result_of_the_network_is_not_modified():
    result = brightness(np.zeros((8, 10, 3), np.float32)).astype(np.float32)
    result.flags.writeable = False  # like the arrays of TensorFlow
    predict_photo(photo_of(8, 10), lambda image: result, (1.0, 1), ("width",))
    np.testing.assert_array_equal(result, brightness(np.zeros((8, 10, 3), np.float32)))


def test_half_precision_is_averaged_in_float32():
    def network(image):
        return brightness(image).astype(np.float16)

    assert predict_photo(photo_of(5, 7), network).dtype == np.float32
    both = predict_photo(photo_of(5, 7), network, (1.0, 0.5), ("width",))
    assert both.dtype == np.float32


def test_wrong_results_of_the_network_are_refused():
    with pytest.raises(ShapeError, match=r"returned \(8, 10, 3\) for a photo of \(8, 10\), not \(8, 10, 2\)"):
        predict_photo(photo_of(5, 7), lambda image: image)
    with pytest.raises(DataError, match=r"the network returned NaN or infinity\. Fix: lower the learning rate"):
        predict_photo(photo_of(5, 7), lambda image: np.nan * brightness(image))


def test_the_most_probable_class():
    probabilities = np.random.default_rng(2).random((4, 5, 7))
    labels = most_probable(probabilities)
    assert labels.dtype == np.uint8
    np.testing.assert_array_equal(labels, probabilities.argmax(axis=-1))


# Held-out photos.

SIZES = {"a": (5, 7), "b": (12, 14), "c": (8, 10)}


def bright_labels(photo):
    return (photo.mean(axis=-1) > 127.5).astype(np.uint8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder like PASCAL VOC's with three photos in "val"; the reference of "b" is wrong in two rows."""
    folder = tmp_path_factory.mktemp("photos")
    for name in ("JPEGImages", "SegmentationClass", "ImageSets/Segmentation"):
        (folder / name).mkdir(parents=True)
    for number, (key, size) in enumerate(SIZES.items()):
        photo = photo_of(*size, seed=number)
        Image.fromarray(photo).save(folder / f"JPEGImages/{key}.png")
        labels = bright_labels(photo)
        if key == "b":
            labels[:2] = 1 - labels[:2]
        labels[-1, :3] = 255
        write_label_image(folder / f"SegmentationClass/{key}.png", labels, TWO)
    (folder / "classes.json").write_text('{"classes": {"dark": [0, 0, 0], "bright": [250, 200, 0]}}')
    (folder / "ImageSets/Segmentation/val.txt").write_text("b\na\nc\n")
    return folder


def test_held_out_photos_are_scored_at_their_own_size(folder):
    sizes = []

    def network(image):
        sizes.append(image.shape[:2])
        return brightness(image)

    evaluation = HeldOutPhotos(multiple=MULTIPLE, num_pictures=2, progress=False)
    values, pictures = evaluation.open(folder, CROP)(network)
    assert sizes == [(12, 16), (8, 10), (8, 10)]
    total = Confusion.empty(2)
    for number, (key, size) in enumerate(SIZES.items()):
        prediction = bright_labels(photo_of(*size, seed=number))
        reference = prediction.copy()
        if key == "b":
            reference[:2] = 1 - reference[:2]
        reference[-1, :3] = 255
        total += confusion(prediction, reference, 2)
    assert 0.8 < total.pixel_accuracy < 1
    assert values == {"mean_iou": total.mean_iou, "pixel_accuracy": total.pixel_accuracy}
    assert tuple(values) == tuple(evaluation.measures)
    assert list(pictures) == ["photo b", "photo a"]
    for picture in pictures.values():
        assert (picture.dtype, picture.shape[2]) == (np.uint8, 3)


def test_the_crop_and_the_scaling_are_those_of_training(folder):
    images = []

    def network(image):
        images.append(image)
        return brightness(image)

    evaluation = HeldOutPhotos(split=None, crop=(16, 16), scaling=MEAN, progress=False)
    evaluation.open(folder, None)(network)
    assert {image.shape for image in images} == {(16, 16, 3)}
    expected = photo_of(*SIZES["a"]).astype(np.float32) - np.array([123.68, 116.779, 103.939], np.float32)
    np.testing.assert_allclose(images[0][:5, :7], expected, atol=1e-5)
    assert not images[0][5:].any()


def test_loss_batches_are_central_crops_in_order(folder):
    evaluation = HeldOutPhotos(progress=False)
    batches = list(evaluation.loss_batches(folder, batch_size=2, sizes=CROP))
    assert [batch["cases"] for batch in batches] == [["b", "a"], ["c", "b"]]
    for batch in batches:
        assert (batch["image"].shape, batch["image"].dtype) == ((2, 8, 10, 3), np.float32)
        assert (batch["labels"].shape, batch["labels"].dtype) == ((2, 8, 10), np.int32)
    large, small = photo_of(*SIZES["b"], seed=1), photo_of(*SIZES["a"], seed=0)
    np.testing.assert_allclose(batches[0]["image"][0], large[2:10, 2:12] / 127.5 - 1, atol=1e-6)
    np.testing.assert_array_equal(batches[0]["labels"][0], bright_labels(large)[2:10, 2:12])
    np.testing.assert_allclose(batches[0]["image"][1][:5, :7], small / 127.5 - 1, atol=1e-6)
    assert not batches[0]["image"][1][5:].any()
    assert (batches[0]["labels"][1][5:] == 255).all()
    assert (batches[0]["labels"][1][:, 7:] == 255).all()
    np.testing.assert_array_equal(batches[1]["image"][1], batches[0]["image"][0])


def test_photos_without_counted_pixels_and_unknown_splits_are_refused(folder, tmp_path):
    with pytest.raises(DataError, match="has no split 'test'"):
        HeldOutPhotos(split="test").open(folder, CROP)
    with pytest.raises(DataError, match=r"a\.png: the network returned NaN"):
        HeldOutPhotos(split=None, progress=False).open(folder, CROP)(lambda image: np.nan * brightness(image))
    for name in ("images", "labels"):
        (tmp_path / name).mkdir()
    Image.fromarray(photo_of(4, 4)).save(tmp_path / "images/a.png")
    write_label_image(tmp_path / "labels/a.png", np.full((4, 4), 255, np.uint8), TWO)
    (tmp_path / "classes.json").write_text((folder / "classes.json").read_text())
    with pytest.raises(DataError, match="every pixel of the 1 held-out photos is marked to be ignored"):
        HeldOutPhotos(split=None, progress=False).open(tmp_path, CROP)(brightness)


# Pictures.


def test_an_overlay_mixes_colors_except_at_ignored_pixels():
    photo = np.full((2, 2, 3), 100, np.uint8)
    labels = np.array([[0, 1], [255, 1]], np.uint8)
    found = overlay(photo, labels, TWO, opacity=0.5)
    assert found.dtype == np.uint8
    assert found.tolist() == [[[50, 50, 50], [175, 150, 50]], [[100, 100, 100], [175, 150, 50]]]
    np.testing.assert_array_equal(overlay(photo, labels, TWO, opacity=0.0), photo)
    np.testing.assert_array_equal(photo, 100)
    other = dataclasses.replace(TWO, ignore_label=7)
    np.testing.assert_array_equal(overlay(photo, np.full((2, 2), 7, np.uint8), other), photo)


def test_a_difference_marks_wrong_pixels_only():
    photo = np.full((1, 3, 3), 100, np.uint8)
    reference, prediction = np.array([[0, 1, 255]], np.uint8), np.array([[0, 0, 0]], np.uint8)
    right, wrong, ignored = difference(LabeledPhoto(photo, prediction, reference), TWO)[0].astype(int)
    assert right.tolist() == [100, 100, 100]
    assert wrong[0] > 200 > 60 > max(wrong[1:])
    assert len(set(ignored)) == 1


def test_a_comparison_shows_four_pictures_of_limited_size():
    photo, labels = photo_of(40, 80), np.zeros((40, 80), np.uint8)
    labels[:, 40:] = 1
    picture = comparison(LabeledPhoto(photo, labels, labels), TWO, max_side=20)
    assert picture.shape == (10, 4 * 20 + 3 * 8, 3)
    np.testing.assert_array_equal(picture[:, 28:48], picture[:, 56:76])  # reference and prediction


@pytest.mark.parametrize(("scales", "flips"), [((1.0,), ()), ((0.5, 1.0, 1.2), ("width", "height"))])
def test_photos_of_a_batch_get_what_they_get_one_by_one(scales, flips):
    """The photos differ in size, but not the images that the network sees."""
    photos, shapes = [photo_of(5, 7), photo_of(4, 8), photo_of(5, 6)], []
    own = PhotoInference(TWO, CROP, MULTIPLE, scales, flips)
    assert len({own.padded_sizes(photo.shape[:2]) for photo in photos}) == 1

    def network(images):
        shapes.append(images.shape)
        return [brightness(image) for image in images]

    together = predict_photos(photos, network, own)
    assert len(shapes) == len(scales) * 2 ** len(flips)
    assert {shape[0] for shape in shapes} == {3}
    for found, photo in zip(together, photos, strict=True):
        np.testing.assert_array_equal(found, predict_photo(photo, brightness, scales, flips))


def test_errors_name_the_photo_of_a_batch():
    def network(images):
        return [brightness(images[0]), np.nan * brightness(images[1])]

    with pytest.raises(DataError, match=r"^b\.jpg: the network returned NaN or infinity\. Fix: lower"):
        predict_photos([photo_of(5, 7)] * 2, network, PhotoInference(TWO, CROP, MULTIPLE), ["a.jpg", "b.jpg"])


def test_batches_have_images_of_one_size():
    sizes = {"a": 1, "b": 1, "c": 1, "d": 2, "f": 1}
    assert [*batches("abcdef", 2, sizes.__getitem__)] == [["a", "b"], ["c"], ["d"], ["e"], ["f"]]
    assert [*batches([1, 2, 3], 2)] == [[1, 2], [3]]
    assert [*batches([], 2)] == []
