"""Detections in whole images through networks that are plain functions, and pictures of them."""

import json

import numpy as np
import pytest

from mtf_imaging.errors import DataError, ShapeError
from mtf_imaging.kinds.objects.output import detections_json, write_image_list
from mtf_imaging.kinds.objects.pictures import category_rgb, comparison, draw, drawn_detections, drawn_objects
from mtf_imaging.kinds.objects.reading.images import Seen
from mtf_imaging.kinds.objects.reading.masks import decode_mask
from tests.kinds.loops import detect_one
from tests.kinds.object_scenes import TWO, detect, make_image, make_object

SIZE = (16, 24)
PIXELS = np.random.default_rng(0).integers(0, 256, (32, 40, 3)).astype(np.uint8)  # half the size fits 16 x 20


def network(masks=None, **arrays):
    """Returns a network of constant detections: the second one of three is padding."""
    result = {
        "boxes": np.array([[2, 1, 10, 12], [0, 0, 0, 0], [4, 4, 40, 40]], np.float32),
        "scores": np.array([0.4, 0, 0.1234567], np.float32),
        "classes": np.array([1, -1, 0], np.int32),
    } | arrays

    def predict(image):
        assert image.shape == (*SIZE, 3)
        assert image.dtype == np.float32
        return result | ({} if masks is None else {"masks": masks})

    return predict


def test_boxes_are_those_of_the_image():
    found = detect_one(PIXELS, network(), TWO, SIZE)
    np.testing.assert_array_equal(found.boxes, [[4, 2, 20, 24], [8, 8, 32, 40]])  # clipped to the image
    assert (found.scores.tolist(), found.classes.tolist(), found.masks, len(found)) == (
        [0.4, 0.123457],
        [1, 0],
        None,
        2,
    )


def test_boxes_are_padding_without_a_score_or_a_class():
    padded = {"scores": np.array([0.5, 0.4, 0.0]), "classes": np.array([-1, 0, 1])}
    found = detect_one(PIXELS, network(**padded), TWO, SIZE)
    assert (found.scores.tolist(), found.classes.tolist()) == ([0.4], [0])


def test_detections_are_sorted_by_their_scores():
    scores = {"scores": np.array([0.4, 0.4, 0.9]), "classes": np.array([1.0, 0.0, 0.0])}
    found = detect_one(PIXELS, network(**scores), TWO, SIZE)
    assert (found.scores.tolist(), found.classes.tolist()) == ([0.9, 0.4, 0.4], [0, 1, 0])


def test_masks_are_pasted_into_the_image():
    masks = np.zeros((3, 4, 4))
    masks[0, :, 2:] = 1
    masks[2, 2:] = 1  # the lower half of a box that exceeds the image
    found = detect_one(PIXELS, network(masks), TWO, SIZE)
    first, second = (decode_mask(mask, *PIXELS.shape[:2]) for mask in found.masks)
    assert first.shape == PIXELS.shape[:2]
    assert first[5:19, 14:23].all()
    assert first[4:20, 13:24].sum() - first[5:19, 14:23].sum() > 30, "the borders belong to it, not the corners"
    assert not first[[4, 19], 23].any()
    assert not first[:, :12].any()
    assert not second.any(), "the lower half is below the image"


@pytest.mark.parametrize(
    ("result", "error", "text"),
    [
        (
            np.zeros((2, 3)),
            ShapeError,
            "the network returned ndarray; detections are boxes [n, 4], scores [n], classes [n]",
        ),
        ({"boxes": 0}, ShapeError, "the network returned boxes []; detections are boxes [n, 4], scores [n]"),
        (
            network(boxes=np.zeros((3, 5)))(np.zeros((*SIZE, 3), np.float32)),
            ShapeError,
            "the network returned boxes [3, 5], scores [3], classes [3]",
        ),
        (
            network(np.zeros((2, 4, 4)))(np.zeros((*SIZE, 3), np.float32)),
            ShapeError,
            "masks [2, 4, 4]; detections are boxes [n, 4]",
        ),
        (network(scores=np.full(3, np.nan))(np.zeros((*SIZE, 3), np.float32)), DataError, "NaN or infinity in scores"),
        (network(classes=np.array([0, 1, 2]))(np.zeros((*SIZE, 3), np.float32)), ShapeError, "class 2; the data have"),
    ],
    ids=["array", "missing", "boxes", "masks", "nan", "class"],
)
def test_other_results_are_reported(result, error, text):
    with pytest.raises(error) as caught:
        detect_one(PIXELS, lambda image: result, TWO, SIZE)
    assert text in str(caught.value)
    assert "Fix: " in str(caught.value)


def test_pictures_show_boxes_masks_and_names():
    image = make_image("a", 5, [make_object(0, (30, 20, 50, 70))])
    pixels = np.full((60, 80, 3), 128, np.uint8)
    detections = detect((1, 0.9, (25, 5, 55, 35)), (0, 0.2, (30, 40, 50, 70)), masks=True)
    blue, orange = (np.array(category_rgb(category)) for category in (0, 1))
    objects = draw(pixels, drawn_objects(image, TWO, masks=False))
    np.testing.assert_array_equal(objects[30, 25:70], np.tile(blue, (45, 1)))  # the upper side of the box
    assert (objects[40, 40] == 128).all()
    drawn = draw(pixels, drawn_detections(detections, TWO, 0.5))
    np.testing.assert_array_equal(drawn[40, 5], orange)
    np.testing.assert_array_equal(drawn[40, 20], np.rint(0.55 * 128 + 0.45 * orange))
    assert (drawn[30:50, 45:] == 128).all(), "the detection with the lower score is not drawn"
    assert (drawn[:24, 5:20] == orange).any(), "the name is above the box"
    pair = comparison(Seen(pixels, image, detections), TWO, 0.5, max_side=80)
    np.testing.assert_array_equal(pair[:, 88:], drawn)
    assert pair.shape == (60, 168, 3)
    assert comparison(Seen(pixels, image, detections), TWO, max_side=250).shape == (180, 488, 3)
    assert comparison(Seen(pixels, image, detections), TWO, max_side=40).shape == (30, 88, 3)


def test_crowd_regions_are_dashed():
    crowd = make_image("a", 5, [make_object(0, (10, 4, 50, 76), is_crowd=True)])
    drawn = draw(np.zeros((60, 80, 3), np.uint8), drawn_objects(crowd, TWO, masks=True))
    side = (drawn[49] == category_rgb(0)).all(axis=-1) | (drawn[50] == category_rgb(0)).all(axis=-1)
    assert 0.3 < side[6:74].mean() < 0.8


def test_results_name_their_files(tmp_path):
    images = [make_image("a", 5, []), make_image("b", 6, [])]
    assert json.loads(detections_json(images, [detect(), detect((1, 0.5, (1, 2, 3, 4)))], TWO)) == [
        {"image_id": 6, "category_id": 3, "bbox": [2, 1, 2, 2], "score": 0.5, "file_name": "b.png"}
    ]
    assert json.loads(detections_json(images, [detect(), detect()], TWO)) == []
    write_image_list(tmp_path / "images.json", images[:1], TWO)
    assert json.loads((tmp_path / "images.json").read_text()) == {
        "images": [{"id": 5, "file_name": "a.png", "height": 60, "width": 80}],
        "categories": [{"id": 7, "name": "cup"}, {"id": 3, "name": "fork"}],
        "annotations": [],
    }
