"""The confusion, boundary F and scores of photos, compared with TensorFlow, with hand-made cases and by brute force."""

import itertools
import json
import math

import numpy as np
import pytest
import tensorflow as tf

from mtf_imaging.errors import ConfigError
from mtf_imaging.kinds.photos.description import PhotoDescription
from mtf_imaging.kinds.photos.scoring.boundary import TOLERANCE, boundary_f
from mtf_imaging.kinds.photos.scoring.confusion import Confusion, confusion
from mtf_imaging.kinds.photos.scoring.scores import (
    CLASS_MEASURES,
    photo_metrics,
    score_photo,
    scores_table,
    total_confusion,
    worst_first,
    write_photo_metrics,
)
from tests.scores import read_rows

IGNORE = 255
FOUR = PhotoDescription(("background", "tree", "road", "sky"), ((0, 0, 0), (0, 128, 0), (128, 64, 128), (70, 130, 180)))


def random_pair(seed, num_classes, size=(9, 7)):
    """Returns a prediction and a reference without class 1, in which a tenth of the pixels is ignored."""
    rng = np.random.default_rng(seed)
    known = [label for label in range(num_classes) if label != 1]
    prediction, reference = (rng.choice(known, size).astype(np.uint8) for _ in range(2))
    reference[rng.random(size) < 0.1] = IGNORE
    return prediction, reference


@pytest.mark.parametrize("seed", range(3))
def test_mean_iou_equals_keras_over_several_photos(seed):
    pairs = [random_pair(10 * seed + n, 4) for n in range(3)]
    keras = tf.keras.metrics.MeanIoU(4, ignore_class=IGNORE)
    total = Confusion.empty(4)
    for prediction, reference in pairs:
        keras.update_state(reference.astype(np.int32), prediction)
        total += confusion(prediction, reference, 4)
    assert total.counts.dtype == np.int64
    assert total.mean_iou == pytest.approx(float(keras.result()), abs=1e-6)
    assert np.isnan(total.iou[1])  # neither image has class 1, so the mean has three terms
    assert total.mean_iou == pytest.approx(total.iou[[0, 2, 3]].mean(), abs=1e-15)


def test_mean_iou_equals_the_metric_of_the_reference_implementation():
    prediction, reference = random_pair(5, 4)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        weights = tf.constant(reference != IGNORE, tf.float32)
        labels = tf.constant(np.where(reference == IGNORE, 0, reference), tf.int64)
        value, update = tf.compat.v1.metrics.mean_iou(labels, tf.constant(prediction, tf.int64), 4, weights)
        session.run(tf.compat.v1.local_variables_initializer())
        session.run(update)
        expected = session.run(value)
    assert confusion(prediction, reference, 4).mean_iou == pytest.approx(float(expected), abs=1e-6)


def test_a_confusion_by_hand():
    reference = np.array([[0, 0, 0, 2], [0, 2, 2, IGNORE]], np.uint8)
    prediction = np.array([[0, 0, 2, 2], [0, 2, 0, 1]], np.uint8)
    counts = confusion(prediction, reference, 4)
    np.testing.assert_array_equal(counts.counts, [[3, 0, 1, 0], [0] * 4, [1, 0, 2, 0], [0] * 4])
    np.testing.assert_allclose(counts.iou, [3 / 5, np.nan, 2 / 4, np.nan])
    np.testing.assert_allclose(counts.accuracy, [3 / 4, np.nan, 2 / 3, np.nan])
    assert counts.mean_iou == pytest.approx(0.55)
    assert counts.pixel_accuracy == pytest.approx(5 / 7)
    assert counts.mean_class_accuracy == pytest.approx((3 / 4 + 2 / 3) / 2)
    assert counts.frequency_weighted_iou == pytest.approx((4 * 3 / 5 + 3 * 2 / 4) / 7)


def test_a_class_of_the_prediction_only_lowers_the_mean_iou():
    reference, prediction = np.zeros((2, 2), np.uint8), np.array([[0, 0], [0, 3]], np.uint8)
    counts = confusion(prediction, reference, 4)
    assert counts.mean_iou == pytest.approx((3 / 4 + 0) / 2)
    assert counts.mean_class_accuracy == pytest.approx(3 / 4)
    assert counts.frequency_weighted_iou == pytest.approx(3 / 4)


def test_a_photo_without_counted_pixels_has_no_values():
    counts = confusion(np.zeros((3, 3), np.uint8), np.full((3, 3), IGNORE, np.uint8), 4)
    assert counts.counts.sum() == 0
    assert counts.mean_iou is counts.pixel_accuracy is counts.mean_class_accuracy is None
    assert counts.frequency_weighted_iou is None


def brute_force_f(prediction, reference, label, tolerance):
    """Computes the boundary F of a class from the definition, with loops over all pairs of boundary pixels."""
    height, width = reference.shape
    masks = [(labels == label) & (reference != IGNORE) for labels in (prediction, reference)]
    if not masks[1].any():
        return None
    boundaries = []
    for mask in masks:
        points = []
        for y, x in itertools.product(range(height), range(width)):
            around = [(y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)]
            inside = [at for at in around if 0 <= at[0] < height and 0 <= at[1] < width]
            if mask[y, x] and not all(mask[at] for at in inside):
                points.append((y, x))
        boundaries.append(points)
    if not all(boundaries):
        return float((masks[0] == masks[1]).all())
    limit = tolerance * math.sqrt(height**2 + width**2)
    shares = []
    for points, others in (boundaries, boundaries[::-1]):
        near = [min(math.dist(point, other) for other in others) <= limit + 1e-9 for point in points]
        shares.append(sum(near) / len(near))
    return 2 * shares[0] * shares[1] / sum(shares) if sum(shares) else 0.0


@pytest.mark.parametrize("tolerance", [TOLERANCE, 0.1, 0.2])
def test_boundary_f_equals_brute_force(tolerance):
    rng = np.random.default_rng(3)
    for size in ((11, 14), (6, 23), (1, 12)):
        coarse = rng.integers(0, 3, (4, 8))
        reference = np.kron(coarse, np.ones((3, 3)))[: size[0], : size[1]].astype(np.uint8)
        prediction = np.where(rng.random(size) < 0.15, 2, np.roll(reference, 1, 1)).astype(np.uint8)
        reference = np.where(rng.random(size) < 0.1, IGNORE, reference).astype(np.uint8)
        values = boundary_f(prediction, reference, 4, tolerance=tolerance)
        expected = [brute_force_f(prediction, reference, label, tolerance) for label in range(4)]
        assert [value is None for value in values] == [value is None for value in expected]
        np.testing.assert_allclose(*([v for v in each if v is not None] for each in (values, expected)), atol=1e-12)
        assert any(0 < value < 1 for value in values if value is not None)


def halves(column, size=(30, 40)):
    """Returns labels that are 0 left of a column and 1 from it on; the diagonal has 50 pixels."""
    labels = np.zeros(size, np.uint8)
    labels[:, column:] = 1
    return labels


@pytest.mark.parametrize(("shift", "expected"), [(0, 1.0), (3, 1.0), (4, 0.0)])
def test_a_shifted_edge_matches_up_to_the_tolerance(shift, expected):
    assert boundary_f(halves(20 + shift), halves(20), 2, tolerance=3 / 50) == [expected, expected]


def test_precision_and_recall_by_hand():
    reference, prediction = halves(20), halves(20)
    prediction[:15, 20:30] = 0  # half of the boundary of class 1 is 10 pixels too far to the right
    # The prediction's boundary of class 1: 15 pixels in column 30, 15 in column 20, and 9 more in row 15 between them.
    # 16 of them are near column 20: the 15 in it, and one in column 21. Rows 14 to 29 of column 20 are near in turn.
    found = boundary_f(prediction, reference, 2, tolerance=1 / 50)[1]
    precision, recall = 16 / 39, 16 / 30
    assert found == pytest.approx(2 * precision * recall / (precision + recall))


def test_ignored_pixels_are_in_neither_boundary():
    reference, prediction = halves(20), halves(20)
    reference[:, 18:22] = IGNORE  # as in PASCAL VOC, where a strip of ignored pixels separates objects
    for column in (18, 20, 22):
        prediction = halves(column)
        assert boundary_f(prediction, reference, 2) == [1.0, 1.0]
    assert boundary_f(halves(24), reference, 2)[1] < 1


def test_a_missed_class_scores_0_and_an_absent_one_is_undefined():
    assert boundary_f(np.zeros((30, 40), np.uint8), halves(20), 3) == [0.0, 0.0, None]
    assert boundary_f(halves(20), np.zeros((30, 40), np.uint8), 3) == [0.0, None, None]
    assert boundary_f(halves(40), halves(40), 2) == [1.0, None]  # a class that fills the photo has no boundary


@pytest.mark.parametrize("value", [0, 1, -0.1, 2.0])
def test_the_tolerance_is_a_share_of_the_diagonal(value):
    with pytest.raises(ConfigError, match=r"tolerance = .* must be a share of the image diagonal, above 0 and below 1"):
        boundary_f(halves(20), halves(20), 2, tolerance=value)


@pytest.fixture(scope="module")
def scores():
    pairs = {"city/a": (halves(20), halves(22)), "b": (halves(20), halves(20)), "c": random_pair(1, 4, (30, 40))}
    return [score_photo(key, *pair, FOUR) for key, pair in pairs.items()]


def test_metrics_combine_the_pixels_of_all_photos(scores):
    metrics = photo_metrics(scores, FOUR)
    total = total_confusion(scores)
    assert metrics["confusion"] == total.counts.tolist()
    assert metrics["mean_iou"] == total.mean_iou
    assert metrics["pixel_accuracy"] == total.pixel_accuracy
    assert list(metrics["classes"]) == list(FOUR.classes)
    assert metrics["classes"]["background"]["pixels"] == int(total.reference[0])
    assert metrics["classes"]["background"]["iou"] == total.iou[0]
    assert [metrics["classes"][name]["photos"] for name in FOUR.classes] == [3, 2, 1, 1]
    assert metrics["classes"]["tree"]["boundary_f"] == (scores[0].boundary_f[1] + scores[1].boundary_f[1]) / 2
    assert metrics["boundary_f"] == pytest.approx(
        np.mean([values["boundary_f"] for values in metrics["classes"].values()])
    )
    one = metrics["photos"]["b"]
    assert (one["size"], one["mean_iou"], one["boundary_f"]) == ([30, 40], 1.0, 1.0)
    assert list(one["classes"]) == ["background", "tree"]
    assert metrics["boundary_tolerance"] == TOLERANCE


def test_the_files_contain_the_metrics(scores, tmp_path):
    write_photo_metrics(tmp_path, scores, FOUR)
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics == json.loads(json.dumps(photo_metrics(scores, FOUR)))
    rows = read_rows(tmp_path / "metrics.csv")
    assert [(row["photo"], row["class"]) for row in rows] == [
        (score.key, name) for score in scores for name in FOUR.classes
    ]
    for row in rows:
        fields = metrics["photos"][row["photo"]]["classes"].get(row["class"], {})
        fields = fields or {"pixels": 0, "predicted_pixels": 0}  # a class that neither image has
        for name in CLASS_MEASURES:
            value = fields.get(name)
            assert row[name] == ("" if value is None else str(value))


def test_the_worst_photo_comes_first(scores):
    ignored = score_photo("d", halves(20), np.full((30, 40), IGNORE, np.uint8), FOUR)
    order = [[*scores, ignored][n].key for n in worst_first([*scores, ignored])]
    assert order == ["c", "city/a", "b", "d"]


def test_the_table_has_a_row_for_each_class_and_the_mean(scores):
    lines = scores_table(scores, FOUR).splitlines()
    assert [line.split()[0] for line in lines] == ["class", *FOUR.classes, "mean", "pixel"]
    metrics = photo_metrics(scores, FOUR)
    assert f"{metrics['mean_iou']:.3f}" in lines[-2]
    assert lines[-1] == f"pixel accuracy {metrics['pixel_accuracy']:.3f}, 3 photos"
    assert str(metrics["classes"]["sky"]["pixels"]) in lines[4]
