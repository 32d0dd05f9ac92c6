"""Evaluation on full or read-only disks: the message names the file, and no data is lost."""

import os

import pytest

from mtf_imaging.cli.runtime.failures import explain
from mtf_imaging.evaluation.pairs.score import score_folders
from mtf_imaging.kinds.prediction_record import FILE, PredictionRecord
from tests.evaluation.oracle import GRID, oracle, store
from tests.kinds.volumes import evaluate, plan_predictions, predict_cases, prediction_files
from tests.records import contents
from tests.storage import fill


@pytest.fixture
def cases(tmp_path):
    for number in (1, 2, 3):
        store(tmp_path / "cases", number, "LPS")
    return tmp_path / "cases"


def run(cases, out):
    return evaluate(cases, out, GRID, oracle, num_pictures=0, progress=False)


@pytest.mark.parametrize("room", [0, 4096, 12288])
def test_a_full_disk_loses_nothing_and_evaluation_resumes_when_there_is_room(cases, tmp_path, mounted, room):
    run(cases, tmp_path / "whole")
    whole = contents(tmp_path / "whole")
    disk = mounted("size=1m")
    fill(disk, room)
    with pytest.raises(OSError, match="No space left") as error:
        run(cases, disk / "out")
    message = explain(error.value)
    assert message.startswith(f"{disk}/out")
    assert message.endswith(
        "No space left on device. Fix: free some disk space; files that were complete are unchanged."
    )
    left = contents(disk / "out") if (disk / "out").exists() else {}
    assert left.items() <= whole.items()
    (disk / "filler").unlink()
    run(cases, disk / "out")
    assert contents(disk / "out") == whole


def test_old_scores_stay_if_new_ones_do_not_fit(cases, tmp_path, mounted):
    disk = mounted("size=1m")
    run(cases, disk / "out")
    before = contents(disk / "out")
    fill(disk, 0)
    with pytest.raises(OSError, match="No space left"):
        run(cases, disk / "out")
    with pytest.raises(OSError, match="No space left"):
        score_folders(cases, disk / "out/predictions", disk / "out", workers=1, progress=False)
    assert contents(disk / "out") == before


def test_a_read_only_folder_is_reported_before_segmentation(cases, tmp_path, mounted):
    out = mounted("size=1m") / "out"
    run(cases, out)
    before = contents(out)
    mounted("remount,ro")

    def never(image):
        raise AssertionError("segmented")

    with pytest.raises(OSError, match="Read-only file system") as error:
        evaluate(cases, out, GRID, never, progress=False)
    assert explain(error.value).startswith(f"{out}/")
    assert explain(error.value).endswith("Fix: check the permissions and the disk, or give another folder.")
    assert contents(out) == before
    assert os.access(out, os.R_OK)


def predict(cases, out):
    """Segments the cases that the record of the folder does not call complete."""
    planned = plan_predictions(cases, out)
    record = PredictionRecord(prediction_files(planned.pairs, cases, out), {"checkpoint": "ckpt-1"})
    record.check()
    return predict_cases(cases, out, GRID, oracle, progress=False, planned=planned, record=record)


@pytest.mark.parametrize("room", [0, 4096, 8192, 12288, 16384])
def test_a_prediction_resumes_when_there_is_room(cases, tmp_path, mounted, room):
    predict(cases, tmp_path / "whole")
    whole = {name: data for name, data in contents(tmp_path / "whole").items() if name != FILE}
    disk = mounted("size=1m")
    fill(disk, room)
    with pytest.raises(OSError, match="No space left") as error:
        predict(cases, disk / "out")
    assert explain(error.value).startswith(f"{disk}/out")
    left = contents(disk / "out") if (disk / "out").exists() else {}
    assert {name: data for name, data in left.items() if name != FILE}.items() <= whole.items()
    (disk / "filler").unlink()
    predict(cases, disk / "out")
    completed = contents(disk / "out")
    assert completed.pop(FILE)
    assert completed == whole
