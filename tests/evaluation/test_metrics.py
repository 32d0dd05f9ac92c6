"""The files and tables of scores: their structure, and their values against hand-computed ones."""

import json

import numpy as np
import pytest

from mtf_imaging.errors import DataError
from mtf_imaging.evaluation.volume_scores.case import score_case
from mtf_imaging.evaluation.volume_scores.metrics_files import (
    dice_table,
    metrics_dict,
    official_table,
    summary_table,
    write_metrics,
)
from tests.scores import read_rows


def score(*cases):
    """Scores cases given as rows of labels along x."""
    rows = [[np.array(labels, np.uint8).reshape(-1, 1, 1) for labels in case] for case in cases]
    return [score_case(str(number), *row, (2.0, 1.0, 1.0)) for number, row in enumerate(rows)]


def test_a_prediction_of_another_shape_is_refused():
    with pytest.raises(
        DataError, match=r"case '0': the prediction has shape \(2, 1, 1\) and the reference \(3, 1, 1\)"
    ):
        score(([1, 2], [1, 2, 0]))


def test_files_and_tables(tmp_path):
    scores = score(([1, 2, 0], [1, 2, 0]), ([1, 2, 0, 0], [1, 1, 1, 2]), ([0, 1], [0, 1]))
    write_metrics(tmp_path, scores)
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics == json.loads(json.dumps(metrics_dict(scores)))
    # Scripts rely on this structure.
    dice = {key: {mask: case[mask]["dice"] for mask in ("liver", "lesion")} for key, case in metrics["cases"].items()}
    assert dice == {
        "0": {"liver": 1.0, "lesion": 1.0},
        "1": {"liver": 2 / 3, "lesion": 0.0},
        "2": {"liver": 1.0, "lesion": 1.0},
    }
    assert metrics["liver"]["dice_per_case"] == pytest.approx(8 / 9)
    assert metrics["liver"]["dice_global"] == pytest.approx(2 * 5 / (5 + 7))
    assert (metrics["lesion"]["dice_per_case"], metrics["lesion"]["dice_global"]) == (pytest.approx(2 / 3), 0.5)
    assert metrics["cases"]["1"]["liver"] | {"hd95": None, "rmsd": None} == {
        "dice": 2 / 3,
        "voe": 0.5,
        "rvd": -0.5,
        "assd": pytest.approx((0 + 0 + 0 + 0 + 2 + 4) / 6),
        "rmsd": None,
        "mssd": 4.0,
        "hd95": None,
    }
    assert metrics["cases"]["2"]["lesion"]["assd"] is None
    assert [lesion["iou"] for lesion in metrics["cases"]["1"]["lesions"]] == [0.0, 0.0]
    assert metrics["cases"]["1"]["tumor_burden"] == {"prediction": 0.5, "reference": 0.25}
    rows = read_rows(tmp_path / "metrics.csv")
    assert rows[1].items() >= {"case": "1", "liver_dice": str(2 / 3), "lesion_dice": "0.0", "liver_mssd": "4.0"}.items()
    assert rows[1].items() >= {"lesions_true_positives": "0", "lesions_false_negatives": "1"}.items()
    assert rows[2]["lesion_assd"] == ""
    official = metrics["cases"]["1"]["official"]
    assert {key: value for key, value in rows[1].items() if key.startswith("official_")} == {
        f"official_{name}": str(value) for name, value in official.items()
    }
    assert (official["lesion_precision"], official["lesion_assd"]) == (0, 9001)
    assert rows[2]["official_lesion_dice_global"] == ""  # neither mask has a lesion
    assert sorted(path.name for path in tmp_path.iterdir()) == ["metrics.csv", "metrics.json"]
    assert dice_table(scores).splitlines()[-2:] == ["per case   0.889   0.667", "global     0.833   0.500"]
    lines = official_table(scores).splitlines()
    assert lines[1] == "IoU > 0.5             0.500     0.500"
    assert "rvd                  0.333     0.000" in lines
    lines = summary_table(scores).splitlines()
    assert lines[0].split() == ["our", "measures", "liver", "lesion", "detected"]
    assert "mssd (mm)            1.333     2.000     0.000" in lines
    assert "IoU > 0.5             0.500     0.500     0.500" in lines
    assert lines[-1] == "tumor burden: RMSE 0.144, largest error 0.250"
