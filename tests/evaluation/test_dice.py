import csv
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtf_imaging.errors import DataError
from mtf_imaging.evaluation.dice import DiceScores
from mtf_imaging.evaluation.metrics import dice_table, metrics_dict, write_metrics

labels = st.lists(st.integers(0, 2), min_size=6, max_size=6)


def brute_force(pairs, is_in):
    """Intersection and total of voxel lists, one voxel at a time."""
    intersection = sum(is_in(p) and is_in(r) for p, r in pairs)
    return intersection, sum(is_in(p) for p, _ in pairs) + sum(is_in(r) for _, r in pairs)


def score(cases):
    scores = DiceScores()
    for number, (prediction, reference) in enumerate(cases):
        scores.add(str(number), np.array(prediction, np.uint8), np.array(reference, np.uint8))
    return scores


@given(st.lists(st.tuples(labels, labels), min_size=1, max_size=4))
def test_dice_agrees_with_brute_force(cases):
    metrics = metrics_dict(score(cases))
    for mask, is_in in (("liver", lambda label: label in (1, 2)), ("lesion", lambda label: label == 2)):
        counts = [brute_force(list(zip(*case, strict=True)), is_in) for case in cases]
        expected = [2 * i / t if t else 1.0 for i, t in counts]
        assert [metrics["cases"][str(n)][mask]["dice"] for n in range(len(cases))] == expected
        assert metrics[mask]["dice_per_case"] == pytest.approx(np.mean(expected))
        i, t = np.sum(counts, axis=0)
        assert metrics[mask]["dice_global"] == pytest.approx(2 * i / t if t else 1.0)


def test_empty_masks():
    """Both empty: right, 1. One empty: wrong, 0. A lesion counts as liver."""
    scores = score([([0, 0, 1], [0, 0, 1]), ([0, 2, 1], [0, 1, 1]), ([1, 1, 0], [1, 2, 0])])
    assert [case["lesion"].dice for case in scores.cases.values()] == [1.0, 0.0, 0.0]
    assert [case["liver"].dice for case in scores.cases.values()] == [1.0, 1.0, 1.0]
    assert scores.dice_per_case("lesion") == pytest.approx(1 / 3)
    assert scores.dice_global("lesion") == 0.0
    assert score([([0], [0])]).dice_global("lesion") == 1.0


def test_per_case_and_global_differ_where_cases_differ_in_size():
    scores = score([([2] * 8, [2] * 8), ([2, 0, 0, 0], [0, 0, 0, 2])])
    assert scores.dice_per_case("lesion") == 0.5
    assert scores.dice_global("lesion") == pytest.approx(2 * 8 / (16 + 2))


def test_a_case_of_another_shape_or_scored_twice():
    scores = score([([1, 2], [1, 2])])
    with pytest.raises(DataError, match=r"case '5': prediction of shape \(2,\), reference of \(3,\)"):
        scores.add("5", np.zeros(2, np.uint8), np.zeros(3, np.uint8))
    with pytest.raises(DataError, match="case '0': scored twice"):
        scores.add("0", np.zeros(2, np.uint8), np.zeros(2, np.uint8))


def test_files_and_table(tmp_path):
    scores = score([([1, 2, 0], [1, 2, 0]), ([1, 2, 0, 0], [1, 1, 1, 2])])
    write_metrics(tmp_path, scores)
    assert json.loads((tmp_path / "metrics.json").read_text()) == {
        "cases": {
            "0": {"liver": {"dice": 1.0}, "lesion": {"dice": 1.0}},
            "1": {"liver": {"dice": 2 / 3}, "lesion": {"dice": 0.0}},
        },
        "liver": {"dice_per_case": pytest.approx(5 / 6), "dice_global": 0.8},
        "lesion": {"dice_per_case": 0.5, "dice_global": 0.5},
    }
    with open(tmp_path / "metrics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[1] == {"case": "1", "liver_dice": str(2 / 3), "lesion_dice": "0.0"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["metrics.csv", "metrics.json"]
    assert dice_table(scores).splitlines()[-2:] == ["per case   0.833   0.500", "global     0.800   0.500"]
