"""Resolution studies: reading `metrics.json`, Dice by lesion size, and the test for a rise."""

import csv
import dataclasses
import json

import numpy as np
import pytest
from PIL import Image

from mtf_imaging.evaluation.resolution_study import MEASURES, Run, read_run, read_study, rises, study_table, write_study
from mtf_imaging.evaluation.scoring.case import score_case
from mtf_imaging.evaluation.scoring.metrics import write_metrics


def make_run(resolution, seed, **dice):
    values = dict.fromkeys(MEASURES, 0.5) | dice
    return Run(resolution, seed, values, dict.fromkeys(MEASURES[2:], 3))


def test_read_run_reads_metrics_json(tmp_path):
    reference = np.zeros((30, 12, 12), np.uint8)
    reference[1:29, 1:11, 1:11] = 1
    reference[2:4, 2:4, 2:4] = 2  # 8 voxels of 2 mm: a sphere of 5 mm, missed
    reference[10:14, 4:8, 4:8] = 2  # 64 voxels: a sphere of 9.9 mm, half of it predicted
    reference[20:26, 3:9, 3:9] = 2  # 216 voxels: a sphere of 14.9 mm, predicted
    prediction = reference.copy()
    prediction[2:4, 2:4, 2:4] = prediction[10:12, 4:8, 4:8] = 1
    prediction[17, 9, 9] = 2  # a false positive, which does not count as a reference lesion
    write_metrics(tmp_path, [score_case("1", prediction, reference, (2.0, 2.0, 2.0))])
    run = read_run(64, 7, tmp_path / "metrics.json")
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert (run.resolution, run.seed) == (64, 7)
    assert run.dice["liver"] == metrics["liver"]["dice_per_case"] == 1
    assert run.dice["lesion"] == metrics["lesion"]["dice_per_case"]
    assert run.dice["lesions below 10 mm"] == pytest.approx((0 + 2 / 3) / 2)
    assert run.dice["lesions 10 to 20 mm"] == 1
    assert run.dice["lesions above 20 mm"] is None
    assert list(run.count.values()) == [2, 1, 0]


def test_a_rise_exceeds_the_spread_of_the_seeds():
    low = [make_run(32, seed, lesion=dice) for seed, dice in ((1, 0.2), (2, 0.3))]
    high = [make_run(64, seed, lesion=dice) for seed, dice in ((1, 0.31), (2, 0.5))]
    assert rises([*low, *high], "lesion")
    assert not rises([*low, *high], "liver")  # equal
    assert not rises([*low, *high, make_run(64, 3, lesion=0.29)], "lesion")
    assert not rises([*low, *high, make_run(128, 1, lesion=0.4)], "lesion")
    assert rises([*reversed(high), make_run(128, 1, lesion=0.6), *low], "lesion")  # the order does not matter
    assert not rises([*low, make_run(64, 1, lesion=None)], "lesion")


def test_table_csv_and_picture(tmp_path):
    runs = [make_run(32, 1, lesion=0.1), make_run(32, 2, lesion=0.2), make_run(64, 1, lesion=0.4)]
    runs[0].dice["lesions above 20 mm"] = None
    text = study_table(runs)
    assert "32^3" in text
    assert "0.150 (0.100 to 0.200)" in text
    write_study(tmp_path, runs, "a study")
    assert read_study(tmp_path / "study.csv") == [dataclasses.replace(run, count=runs[0].count) for run in runs]
    with open(tmp_path / "study.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["resolution"], row["seed"], row["lesion"]) for row in rows] == [
        ("32", "1", "0.1"),
        ("32", "2", "0.2"),
        ("64", "1", "0.4"),
    ]
    assert rows[0]["lesions above 20 mm"] == ""
    assert rows[0]["number of lesions below 10 mm"] == "3"
    with Image.open(tmp_path / "study.png") as picture:
        assert picture.size[0] > picture.size[1] > 300
        assert len(picture.convert("RGB").getcolors(1 << 20)) > 50
