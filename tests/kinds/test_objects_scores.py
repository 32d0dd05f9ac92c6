"""The scores of detections: average precision by hand, crowd regions, empty images, counts of each image."""

import json

import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.kinds.objects.scoring.coco import MEASURES, score_objects
from mtf_imaging.kinds.objects.scoring.scores import (
    object_metrics,
    score_images,
    scores_table,
    worst_first,
    write_object_metrics,
)
from tests.kinds.object_scenes import TWO, detect, make_image, make_object
from tests.scores import read_rows

NOTHING = detect()
CUPS = make_image("cups", 5, [make_object(0, (0, 0, 10, 10)), make_object(0, (20, 20, 30, 30))])
# IoU 1, a false one, and IoU 0.72: five of the ten thresholds from 0.5 to 0.95.
THREE = detect((0, 0.9, (0, 0, 10, 10)), (0, 0.8, (40, 40, 50, 50)), (0, 0.7, (20, 20, 30, 27.2)))
# Precision is 1 up to the recall 0.5, at 51 of the 101 recalls; then 2 / 3, or 0 if the IoU of the last one is too low.
LOW, HIGH = 51 / 101, (51 + 50 * 2 / 3) / 101


def assert_equal(measures, expected):
    assert measures.keys() == expected.keys()
    for name, value in expected.items():
        assert measures[name] == (None if value is None else pytest.approx(value, rel=1e-12)), name


def test_average_precision_equals_that_by_hand(capfd):
    measures = score_images([CUPS], [THREE], TWO).boxes.measures
    assert [*measures] == [*MEASURES]
    mean = (LOW + HIGH) / 2
    expected = {"ap": mean, "ap50": HIGH, "ap75": LOW, "ap_small": mean, "ap_medium": None, "ap_large": None}
    expected |= {"ar1": 0.5, "ar10": 0.75, "ar100": 0.75, "ar_small": 0.75, "ar_medium": None, "ar_large": None}
    assert_equal(measures, expected)
    assert capfd.readouterr() == ("", ""), "pycocotools prints"


def test_precision_recall_curves_equal_those_by_hand():
    curves = score_images([CUPS], [THREE], TWO).boxes.curves
    steps = np.where(np.arange(101) <= 50, 1.0, 2 / 3)
    np.testing.assert_allclose(curves["ap50"]["cup"], steps)
    np.testing.assert_allclose(curves["ap75"]["cup"], np.where(np.arange(101) <= 50, 1.0, 0.0))
    np.testing.assert_allclose(curves["ap"]["cup"], np.where(np.arange(101) <= 50, 1.0, 1 / 3))
    for by_category in curves.values():
        assert [*by_category] == ["", "cup"], "categories without objects have no curves"
        np.testing.assert_array_equal(by_category[""], by_category["cup"])


def test_categories_keep_their_names_and_ids():
    image = make_image("a", 5, [make_object(0, (0, 0, 10, 10)), make_object(1, (20, 20, 60, 60))])
    scores = score_images([image], [detect((0, 0.9, (0, 0, 10, 10)))], TWO).boxes
    assert scores.categories["cup"]["ap"] == pytest.approx(1)
    assert scores.categories["fork"]["ap"] == 0
    assert scores.categories["cup"]["ap_medium"] is None
    assert scores.categories["fork"]["ap_medium"] == 0
    assert scores.measures["ap"] == pytest.approx(0.5)
    np.testing.assert_allclose(scores.curves["ap50"]["cup"], 1)
    np.testing.assert_allclose(scores.curves["ap50"]["fork"], 0)
    assert detect((1, 0.9, (1, 2, 4, 8))).coco_results(5, TWO) == [
        {"image_id": 5, "category_id": 3, "bbox": [2.0, 1.0, 6.0, 3.0], "score": 0.9}
    ]


def test_the_numbers_of_one_category_are_those_of_all():
    rng = np.random.default_rng(0)
    images, detections = [], []
    for number in range(4):
        boxes = [(y, x, y + h, x + w) for y, x, h, w in rng.integers(1, 40, (5, 4))]
        images.append(make_image(str(number), number, [make_object(0, box) for box in boxes]))
        moved = [(0, 0.1 + 0.8 * rng.random(), np.add(box, rng.integers(0, 3, 4))) for box in boxes]
        detections.append(detect(*sorted(moved, key=lambda row: -row[1])))
    scores = score_images(images, detections, TWO).boxes
    cup = {name: scores.categories["cup"][name] for name in MEASURES}
    assert_equal(cup, scores.measures)
    assert 0 < cup["ap"] < 1
    assert cup["ap_medium"] is not None


def test_crowd_regions_neither_count_as_objects_nor_make_detections_wrong():
    crowd = make_object(0, (40, 40, 60, 80), is_crowd=True)
    image = make_image("a", 5, [make_object(0, (0, 0, 10, 10)), crowd])
    inside = [(0, 0.9, (41, 42, 50, 50)), (0, 0.8, (45, 60, 55, 70)), (0, 0.7, (0, 0, 10, 10))]
    scores = score_images([image], [detect(*inside)], TWO)
    assert scores.boxes.measures["ap"] == pytest.approx(1)
    assert scores.boxes.categories["cup"]["objects"] == 1
    (one,) = scores.images
    assert (one.objects, one.found, one.false, one.missed, one.f1) == (1, 1, 0, 0, 1)
    wrong = score_images([image], [detect(*inside, (0, 0.95, (20, 20, 30, 30)))], TWO)
    assert wrong.boxes.measures["ap"] == pytest.approx(0.5)


@pytest.mark.parametrize("masks", [False, True])
def test_images_without_detections_or_objects_are_scored(masks):
    empty = make_image("empty", 6, [])
    missed = score_images([CUPS, empty], [detect(masks=masks)] * 2, TWO)
    assert missed.boxes.measures["ap"] == 0
    assert (missed.masks.measures["ap"] if masks else missed.masks) == (0 if masks else None)
    assert [(one.missed, one.f1) for one in missed.images] == [(2, 0), (0, None)]
    nothing = score_images([empty], [NOTHING], TWO)
    assert {*nothing.boxes.measures.values()} == {None}
    assert nothing.boxes.curves == {"ap50": {}, "ap75": {}, "ap": {}}
    false = score_images([empty], [detect((1, 0.5, (0, 0, 9, 9)), masks=masks)], TWO)
    assert (false.images[0].false, false.images[0].f1) == (1, 0)


def test_an_object_with_the_number_0_counts():
    """pycocotools itself counts a detection of the annotation 0 as wrong."""
    image = make_image("a", 5, [make_object(0, (0, 0, 10, 10), number=0)])
    assert score_images([image], [detect((0, 0.9, (0, 0, 10, 10)))], TWO).boxes.measures["ap"] == pytest.approx(1)


def test_masks_are_scored_by_their_pixels():
    corners = np.array([0.0, 0, 40, 0, 40, 10, 0, 40])  # 1000 of the 1600 pixels of the box
    part = make_object(0, (0, 0, 40, 40), segmentation=(corners,))._replace(area=1000.0)
    image = make_image("a", 5, [part])
    scores = score_images([image], [detect((0, 0.9, (0, 0, 40, 40)), masks=True)], TWO)
    assert scores.boxes.measures["ap"] == pytest.approx(1)
    assert scores.masks.measures["ap50"] == pytest.approx(1)
    assert scores.masks.measures["ap"] == pytest.approx(0.3)  # 0.5, 0.55 and 0.6
    assert scores.images[0].found == 1
    without = make_image("a", 5, [part._replace(segmentation=None, annotation_id=12)])
    message = r"a\.png: the annotation 12 has no segmentation, but the network predicts masks, .* Fix: add the seg"
    with pytest.raises(mi.DataError, match=message):
        score_images([without], [detect(masks=True)], TWO)


def test_the_area_of_a_wrong_mask_is_that_of_its_pixels():
    """A mask of 900 pixels in a box of 3600 is small: as a wrong detection, it lowers the AP of small objects."""
    image = make_image("a", 5, [make_object(0, (0, 0, 10, 10))])
    detections = detect((0, 0.9, (0, 0, 60, 60)), (0, 0.8, (0, 0, 10, 10)), masks=True)
    small = detect((0, 0.9, (30, 30, 60, 60)), masks=True).masks[0]
    results = detections.coco_results(5, TWO)
    results[0]["segmentation"] = small
    boxes, masks = (score_objects([image], results, TWO, what).measures for what in ("boxes", "masks"))
    assert (boxes["ap_small"], masks["ap_small"]) == (pytest.approx(1), pytest.approx(0.5))


def test_the_threshold_maximizes_f1_over_all_images():
    other = make_image("other", 6, [])
    scores = score_images([CUPS, other], [THREE, detect((0, 0.85, (0, 0, 9, 9)))], TWO)
    # From 0.9 up, F1 is 2 / 3; all four detections give 4 / 6.
    assert scores.threshold == 0.9
    assert [(one.found, one.false, one.missed) for one in scores.images] == [(1, 0, 1), (0, 0, 0)]
    assert [one.f1 for one in scores.images] == [pytest.approx(2 / 3), None]
    three = score_images([CUPS], [THREE], TWO)
    assert (three.threshold, three.images[0].f1) == (0.7, pytest.approx(0.8))
    # Objects are found at IoU 0.5 in the order of the scores, so the same object is not found twice.
    twice = detect((0, 0.9, (0, 0, 10, 10)), (0, 0.9, (0, 0, 10, 10)), (0, 0.9, (20, 20, 30, 30)))
    (one,) = score_images([CUPS], [twice], TWO).images
    assert (one.found, one.false) == (2, 1)


def test_worst_images_come_first():
    empty = make_image("empty", 6, [])
    right = make_image("right", 7, [make_object(0, (0, 0, 10, 10))])
    detections = [NOTHING, THREE, detect((0, 0.9, (0, 0, 10, 10)))]
    assert worst_first(score_images([empty, CUPS, right], detections, TWO).images) == [1, 2, 0]


def test_metrics_are_written_as_json_and_csv(tmp_path):
    scores = score_images([CUPS], [detect((0, 0.9, (0, 0, 10, 10)), masks=True)], TWO)
    write_object_metrics(tmp_path, scores)
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics == json.loads(json.dumps(object_metrics(scores)))
    assert [*metrics["boxes"]] == [*MEASURES, "categories"]
    assert metrics["boxes"]["ap_large"] is None
    assert metrics["masks"]["categories"]["fork"] == dict.fromkeys(MEASURES) | {"objects": 0}
    assert metrics["images"] == {
        "cups": {"image_id": 5, "size": [60, 80], "objects": 2, "found": 1, "false": 0, "missed": 1, "f1": 2 / 3}
    }
    assert (metrics["score_threshold"], metrics["missed"], metrics["f1"]) == (0.9, 1, 2 / 3)
    rows = read_rows(tmp_path / "metrics.csv")
    assert [(row["kind"], row["category"]) for row in rows] == [
        (kind, name) for kind in ("boxes", "masks") for name in ("", "cup", "fork")
    ]
    assert float(rows[0]["ap50"]) == metrics["boxes"]["ap50"]
    assert (rows[0]["ap_large"], rows[0]["objects"]) == ("", "2")


def test_the_table_shows_categories():
    table = scores_table(score_images([CUPS], [THREE], TWO)).splitlines()
    assert table[0] == "boxes"
    assert table[1].split() == ["category", "AP", "AP50", "AP75", "small", "medium", "large", "AR100", "objects"]
    assert table[3].split() == ["fork", *"-------", "0"]
    assert table[4].split() == ["all", "0.670", "0.835", "0.505", "0.670", "-", "-", "0.750", "2"]
    assert table[-1] == "1 image"


def test_no_score_maximizes_f1_without_a_match():
    wrong = detect((0, 0.9, (40, 40, 50, 50)), (1, 0.2, (0, 0, 10, 10)))
    scores = score_images([CUPS], [wrong], TWO)
    assert (scores.threshold, scores.counted_from) == (None, 0.0)
    (one,) = scores.images
    assert (one.found, one.false, one.missed, one.f1) == (0, 2, 2, 0)
    assert json.loads(json.dumps(object_metrics(scores)))["score_threshold"] is None
