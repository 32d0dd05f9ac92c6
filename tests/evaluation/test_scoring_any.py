"""Scores of any labels: values computed by hand, brute force on random masks, regions and the ignore label."""

import itertools
import json
import math
import pickle

import numpy as np
import pytest

from mtf_imaging.data.description.description import ANY_RULES, LITS, Description
from mtf_imaging.errors import ConfigError
from mtf_imaging.evaluation.pairs.rules import Scoring
from mtf_imaging.evaluation.volume_scores.case import score_case
from mtf_imaging.evaluation.volume_scores.metrics_files import column_names, metrics_dict, scores_text, write_metrics
from mtf_imaging.evaluation.volume_scores.overlap import label_overlaps, scored_labels
from mtf_imaging.evaluation.volume_scores.summary import summarize
from mtf_imaging.evaluation.volume_scores.surface import surface_distances
from tests.evaluation.descriptions import ORGANS, REGIONS
from tests.scores import read_rows


def box(*bounds, shape=(12, 10, 8), value=1):
    labels = np.zeros(shape, np.uint8)
    labels[tuple(slice(*pair) for pair in bounds)] = value
    return labels


def values(prediction, reference, description, spacing=(1.0, 1.0, 1.0), tolerance=1.0):
    case = score_case("0", prediction, reference, spacing, description=description, tolerance=tolerance)
    return metrics_dict([case], description)["cases"]["0"]


def test_overlap_and_volume_error_by_hand():
    """The reference has 4 x 4 x 4 voxels, the prediction 6 x 4 x 4 and shares 3 x 4 x 4 of them."""
    reference, prediction = box((2, 6), (2, 6), (2, 6)), box((3, 9), (2, 6), (2, 6))
    found = values(prediction, reference, ORGANS, spacing=(2.0, 1.0, 5.0))["spleen"]
    assert found["dice"] == pytest.approx(2 * 48 / (64 + 96))
    assert found["iou"] == pytest.approx(48 / (64 + 96 - 48))
    assert found["rvd"] == pytest.approx(0.5)
    assert found["volume_error_ml"] == pytest.approx(32 * 10 / 1000)  # voxels of 10 mm^3


@pytest.mark.parametrize(("shift", "tolerance", "far"), [(1, 1.0, 0), (2, 1.0, 36 + 4), (2, 2.0, 0)])
def test_surface_dice_of_a_shifted_cube(shift, tolerance, far):
    """Each cube has 6^3 voxels, of which 4^3 are inside.

    After a shift by 2, the face of each cube outside the other one (6 x 6 points) is 2 mm from it. Of the face inside
    the other cube, the middle (2 x 2 points) is 2 mm from its sides. All other points are at most 1 mm away.
    """
    reference, prediction = (box((a, a + 6), (2, 8), (1, 7), shape=(14, 10, 8)) for a in (2, 2 + shift))
    found = values(prediction, reference, ORGANS, tolerance=tolerance)["spleen"]["surface_dice"]
    assert found == pytest.approx(1 - far / (6**3 - 4**3))


def test_surface_dice_counts_points_of_both_surfaces():
    """Two rows along x in a plane: 5 points of the reference and 8 of the prediction, all on the surface."""
    reference, prediction = np.zeros((12, 3), np.uint8), np.zeros((12, 3), np.uint8)
    reference[2:7, 1], prediction[2:10, 1] = 1, 1
    # The points 7, 8 and 9 of the prediction are 2, 4 and 6 mm from the reference.
    for tolerance, far in ((1.0, 3), (2.0, 2), (4.0, 1), (5.9, 1), (6.0, 0)):
        found = values(prediction, reference, ORGANS, spacing=(2.0, 1.0), tolerance=tolerance)["spleen"]
        assert found["surface_dice"] == pytest.approx((5 + 8 - far) / (5 + 8))


def test_a_distance_equal_to_the_tolerance_is_within_it():
    """In floating point, 3 * 0.1 - 2 * 0.1 is above 0.1."""
    assert 3 * 0.1 - 2 * 0.1 > 0.1
    reference, prediction = np.zeros((6, 3), np.uint8), np.zeros((6, 3), np.uint8)
    reference[:3, 1], prediction[:4, 1] = 1, 1
    found = values(prediction, reference, ORGANS, spacing=(0.1, 1.0), tolerance=0.1)["spleen"]
    assert found["surface_dice"] == 1.0


def by_brute_force(prediction, reference, spacing, tolerance):
    """Returns (surface Dice, ASSD, HD95) by loops over voxels and pairs of points, without the package."""

    def points(mask):
        steps = [step for step in itertools.product((-1, 0, 1), repeat=mask.ndim) if 0 < np.abs(step).sum() <= 2]
        inside = by_hand_voxels(mask)
        return [v for v in inside if any(tuple(np.add(v, step)) not in inside for step in steps)]

    def by_hand_voxels(mask):
        return {tuple(int(i) for i in index) for index in np.argwhere(mask)}

    def nearest(some, others):
        return [min(math.dist(np.multiply(a, spacing), np.multiply(b, spacing)) for b in others) for a in some]

    first, second = points(prediction), points(reference)
    there, back = nearest(first, second), nearest(second, first)
    near = sum(mm <= tolerance + 1e-9 for mm in there + back)
    hd95 = max(np.percentile(there, 95), np.percentile(back, 95))
    return near / len(there + back), math.fsum(there + back) / len(there + back), hd95


@pytest.mark.parametrize("shape", [(6, 5, 4), (7, 8)])
@pytest.mark.parametrize("seed", range(6))
def test_surfaces_equal_brute_force(seed, shape):
    rng = np.random.default_rng(seed)
    spacing = rng.choice([0.5, 0.7, 1.0, 2.5], len(shape))
    prediction, reference = (rng.random((2, *shape)) < rng.choice([0.1, 0.5, 0.9])).astype(np.uint8)
    for tolerance in (0.7, 1.0, 2.0):
        found = values(prediction, reference, ORGANS, tuple(spacing), tolerance)["spleen"]
        expected = by_brute_force(prediction, reference, spacing, tolerance)
        assert (found["surface_dice"], found["assd"], found["hd95"]) == pytest.approx(expected)


def test_an_image_with_one_slice_is_scored_as_2d():
    """Each voxel of a mask on one slice has a neighbor outside; the scores use the contour and the area instead."""
    labels = np.random.default_rng(0).random((2, 9, 8)) < 0.6
    flat = metrics_dict([score_case("0", *labels, (2.0, 1.0), description=ORGANS)], ORGANS)["cases"]["0"]["spleen"]
    for axis in range(3):
        spacing = np.insert([2.0, 1.0], axis, 1.0)
        pair = (np.expand_dims(one, axis) for one in labels)
        case = score_case("0", *pair, tuple(spacing), description=ORGANS)
        assert metrics_dict([case], ORGANS)["cases"]["0"]["spleen"] == flat
    disk = (np.square(np.indices((41, 41)) - 20).sum(0) < 100).astype(np.uint8) * 4
    (lesion,) = score_case("0", disk, disk, (0.5, 0.5), description=ORGANS).lesions
    assert lesion.diameter == pytest.approx(10, abs=0.2)


def test_every_label_of_four_has_its_own_scores():
    reference, prediction = (np.zeros((10, 4, 4), np.uint8) for _ in range(2))
    for value, (right, predicted) in enumerate([(4, 4), (3, 2), (2, 0), (0, 0)], start=1):
        reference[:right, value - 1], prediction[:predicted, value - 1] = value, value
    found = values(prediction, reference, ORGANS)
    assert {mask: found[mask]["dice"] for mask in ORGANS.masks} == pytest.approx(
        {"spleen": 1.0, "left kidney": 0.8, "right kidney": 0.0, "cyst": 1.0}
    )
    assert found["mean"]["dice"] == pytest.approx(2.8 / 4)
    missed, empty = found["right kidney"], found["cyst"]
    assert (missed["iou"], missed["rvd"], missed["surface_dice"]) == (0.0, -1.0, 0.0)
    assert missed["hd95"] is missed["assd"] is None
    assert (empty["iou"], empty["rvd"], empty["volume_error_ml"]) == (1.0, 0.0, 0.0)
    assert empty["surface_dice"] is empty["hd95"] is None
    false = values(reference * 0 + 3, reference * 0, ORGANS)["right kidney"]
    assert false["rvd"] is None
    assert false["volume_error_ml"] == pytest.approx(0.16)


def test_regions_overlap():
    reference, prediction = (np.zeros((12, 3, 3), np.uint8) for _ in range(2))
    reference[1:9, 1, 1] = [1, 1, 2, 2, 3, 3, 1, 1]
    prediction[1:9, 1, 1] = [1, 1, 1, 2, 2, 3, 3, 1]
    found = {name: counts.dice for name, counts in label_overlaps(prediction, reference, REGIONS).items()}
    assert found == pytest.approx({"whole tumor": 1.0, "core": 2 * 3 / 8, "enhancing": 2 * 1 / 4})


def test_voxels_with_the_ignore_label_of_the_reference_are_excluded():
    reference, prediction = (np.zeros((12, 6, 6), np.uint8) for _ in range(2))
    reference[2:6, 2:4, 2:4], prediction[2:6, 2:4, 2:4] = 3, 3
    plain = values(prediction, reference, REGIONS)
    reference[8:], prediction[9:11, 1:3, 1:3] = 4, 3  # a wrong component where the reference says nothing
    assert values(prediction, reference, REGIONS) == plain
    assert plain["core"]["dice"] == 1.0
    without = Description(REGIONS.channels, REGIONS.labels, REGIONS.masks, lesions=REGIONS.lesions)
    assert values(prediction, reference, without)["core"]["dice"] < 1
    assert all(a is b for a, b in zip(scored_labels(prediction, prediction, REGIONS), (prediction,) * 2, strict=True))


def test_the_ignore_label_hides_a_part_of_a_mask():
    """Of 8 voxels of each mask, 4 are ignored; of the other 4, the prediction has 2."""
    reference = np.array([3, 3, 3, 3, 4, 4, 4, 4], np.uint8)[:, None, None]
    prediction = np.array([3, 3, 0, 0, 3, 3, 3, 3], np.uint8)[:, None, None]
    found = values(prediction, reference, REGIONS)["enhancing"]
    assert (found["dice"], found["iou"], found["rvd"]) == pytest.approx((2 * 2 / 6, 0.5, -0.5))


def test_lesions_are_scored_for_the_masks_that_are_marked():
    """Two cysts in the reference: one is found at an IoU of 0.5, the other is missed; one prediction is false."""
    reference, prediction = (np.zeros((30, 12, 12), np.uint8) for _ in range(2))
    reference[2:6, 2:6, 2:6], prediction[4:6, 2:6, 2:6] = 4, 4
    reference[10:12, 2:4, 2:4] = 4
    prediction[20:23, 2:5, 2:5] = 4
    case = score_case("0", prediction, reference, (2.0, 2.0, 2.0), description=ORGANS)
    summary = summarize([case], ORGANS)
    found = {name: summary["cyst"]["detection"][name] for name in ("iou_above_0", "iou_above_0.5")}
    counts = {name: [one[k] for k in ("precision", "recall", "f1")] for name, one in found.items()}
    assert counts == {"iou_above_0": [0.5, 0.5, 0.5], "iou_above_0.5": [0.0, 0.0, 0.0]}
    assert found["iou_above_0"]["by_size"]["below 10 mm"]["recall"] == 0.5
    lesions = metrics_dict([case], ORGANS)["cases"]["0"]["cyst"]["lesions"]
    assert [one["iou"] for one in lesions] == [0.5, 0.0, 0.0]
    assert [one["volume_error_ml"] for one in lesions] == pytest.approx([-0.256, -0.064, 0.216])
    assert "detection" not in summary["spleen"]
    assert case.lesions_by_mask.keys() == {"cyst"}


def test_files_and_tables(tmp_path):
    reference = np.zeros((10, 4, 4), np.uint8)
    reference[:4, 0], reference[:3, 1], reference[5:8, 2], reference[:2, 3] = 1, 2, 3, 4
    scores = [
        score_case(key, prediction, reference, (2.0, 1.0, 1.0), description=ORGANS, tolerance=2.0)
        for key, prediction in (("a", reference), ("b", np.where(reference == 2, 0, reference)))
    ]
    write_metrics(tmp_path, scores, ORGANS)
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics == json.loads(json.dumps(metrics_dict(scores, ORGANS)))
    assert list(metrics) == ["surface_tolerance_mm", "cases", "mean", *ORGANS.masks]
    assert metrics["surface_tolerance_mm"] == 2.0
    assert metrics["left kidney"]["dice_per_case"] == 0.5
    assert metrics["left kidney"]["dice_global"] == pytest.approx(2 / 3)
    assert metrics["left kidney"]["undefined"]["hd95"] == 1
    assert metrics["mean"]["dice_per_case"] == pytest.approx(3.5 / 4)
    rows = read_rows(tmp_path / "metrics.csv")
    assert [row["mean_dice"] for row in rows] == ["1.0", "0.75"]
    assert (rows[1]["left_kidney_dice"], rows[1]["left_kidney_hd95"]) == ("0.0", "")
    assert rows[1]["left_kidney_volume_error_ml"] == str(metrics["cases"]["b"]["left kidney"]["volume_error_ml"])
    assert [row["cyst_true_positives"] for row in rows] == ["1", "1"]
    text = scores_text(scores, ORGANS)
    assert text.splitlines()[0].split() == ["Dice", "spleen", "left", "kidney", "right", "kidney", "cyst"]
    assert ["per", "case", "1.000", "0.500", "1.000", "1.000"] in [line.split() for line in text.splitlines()]
    assert "surface_dice: at 2 mm" in text
    assert "cyst: lesions" in text
    assert "official" not in text


def test_names_of_columns_are_distinct():
    masks = dict.fromkeys(["a b", "a-b", "a", "a_surface", "Läsion"], (1,))
    columns = column_names(Description(("CT",), {}, masks))
    assert columns == {"a b": "a_b", "a-b": "a_b_2", "a": "a", "a_surface": "a_surface_2", "Läsion": "L_sion"}


def test_the_rules_of_lits_can_be_replaced_by_those_of_any_labels():
    """The masks stay those of LiTS, in which lesions belong to the liver."""
    labels = np.array([0, 1, 1, 2, 2, 0], np.uint8)[:, None, None]
    prediction = np.array([0, 1, 1, 1, 2, 0], np.uint8)[:, None, None]
    description = Description(LITS.channels, LITS.labels, LITS.masks, lesions=LITS.lesions, rules=ANY_RULES)
    case = score_case("0", prediction, labels, (1.0, 1.0, 1.0), description=description)
    assert case.official is None
    metrics = metrics_dict([case], description)
    assert metrics["liver"]["iou"] == 1.0
    assert metrics["lesion"]["iou"] == 0.5
    assert "tumor_burden" not in metrics


@pytest.mark.parametrize("tolerance", [0.0, -1.0, math.inf, math.nan])
def test_a_tolerance_that_is_not_positive_is_refused(tolerance):
    with pytest.raises(ConfigError, match=r"surface_tolerance = \S+: .* not a positive number of mm\. Fix: ") as caught:
        Scoring(surface_tolerance=tolerance)
    assert caught.value.settings == ("surface_tolerance",)


def test_scores_can_be_sent_to_another_process():
    assert pickle.loads(pickle.dumps(REGIONS)) == REGIONS


def test_no_surface_dice_without_a_tolerance():
    mask = np.ones((2, 2, 2), bool)
    assert surface_distances(mask, mask, (1, 1, 1)).surface_dice is None
