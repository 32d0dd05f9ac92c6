"""`verify` compares the recorded digests of runs and results with the files at hand."""

import json
import re
import shutil

import pytest

import mtf_imaging as mi
from mtf_imaging.cli.main import main
from mtf_imaging.data.listing.image_files import image_digest
from mtf_imaging.evaluation.pairs.score import score_folders
from mtf_imaging.files.provenance.digests import digest
from tests.jobs.test_informing import made  # noqa: F401, a fixture


@pytest.fixture
def folder(made, tmp_path):  # noqa: F811
    return shutil.copytree(made, tmp_path / "made")


def statuses(folder, name, *files):
    compared, left_out = mi.jobs.verify(folder / name, files=[folder / one for one in files])
    assert all((one.status == "ok") == (one.recorded == one.found) for one in compared)
    return {one.title: one.status for one in compared}, left_out


def change(path):
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


ITEMS = {
    "prediction of 3: segmentation-3.nii.gz": "evaluation/predictions/segmentation-3.nii.gz",
    "reference of 3: segmentation-3.nii.gz": "cases/segmentation-3.nii.gz",
    "image of 13: volume-13.nii.gz": "cases/volume-13.nii.gz",
    "checkpoint of run: ckpt-4.index": "run/ckpt-4.index",
    "configuration of run: config.gin": "run/config.gin",
}


def test_all_files_of_scores_are_compared(folder):
    found, left_out = statuses(folder, "evaluation", "cases", "run")
    assert left_out == 0
    assert {*found.values()} == {"ok"}
    assert len(found) == 8
    assert found.keys() >= ITEMS.keys()
    own, left_out = statuses(folder, "evaluation")
    assert (len(own), left_out) == (2, 6)


@pytest.mark.parametrize("title", ITEMS)
def test_a_changed_or_missing_file_is_found(folder, title):
    path = folder / ITEMS[title]
    change(path)
    compared, _ = mi.jobs.verify(folder / "evaluation", files=[folder / "cases", folder / "run"])
    (one,) = (one for one in compared if one.title == title)
    assert (one.status, one.found) == ("changed", digest(path))
    path.unlink()
    found, _ = statuses(folder, "evaluation", "cases", "run")
    assert found.pop(title) == "missing"
    assert {*found.values()} == {"ok"}


def test_predictions_and_their_images(folder):
    assert statuses(folder, "predictions") == (dict.fromkeys(PREDICTED[:2], "ok"), 4)
    change(folder / "predictions/segmentation-13.nii.gz")
    change(folder / "cases/volume-3.nii.gz")
    found, _ = statuses(folder, "predictions", "cases", "run")
    assert [title for title, status in found.items() if status == "changed"] == [PREDICTED[1], "image volume-3.nii.gz"]
    assert len(found) == 6
    assert statuses(folder, "predictions/segmentation-3.nii.gz") == ({PREDICTED[0]: "ok"}, 0)
    assert statuses(folder, "predictions/segmentation-13.nii.gz") == ({PREDICTED[1]: "changed"}, 0)


PREDICTED = ["prediction segmentation-3.nii.gz", "prediction segmentation-13.nii.gz"]


def test_scores_of_other_predictions(folder):
    score_folders(folder / "cases", folder / "predictions", folder / "scores", workers=1, progress=False)
    with pytest.raises(mi.DataError, match=r"the 6 files whose digests it records are in other folders\. Fix: "):
        statuses(folder, "scores")
    assert {*statuses(folder, "scores", "cases", "predictions", "run")[0].values()} == {"ok"}
    change(folder / "predictions/segmentation-3.nii.gz")
    found, _ = statuses(folder, "scores", "cases", "predictions", "run")
    assert [title for title, status in found.items() if status != "ok"] == ["prediction of 3: segmentation-3.nii.gz"]


def test_a_run_and_folds(folder):
    assert statuses(folder, "run") == ({"configuration config.gin": "ok"}, 0)
    for number in (0, 1):
        shutil.copytree(folder / "run", folder / f"cv/fold_{number}")
    change(folder / "cv/fold_1/config.gin")
    compared, _ = mi.jobs.verify(folder / "cv")
    assert [one.status for one in compared] == ["ok", "changed"]


def test_checkpoints_of_other_runs_do_not_count(folder):
    (folder / "runs/other").mkdir(parents=True)
    (folder / "runs/other/ckpt-4.index").write_text("another checkpoint of this step")
    found, _ = statuses(folder, "evaluation", "cases", "runs")
    assert found["checkpoint of run: ckpt-4.index"] == "missing"
    shutil.copytree(folder / "run", folder / "runs/renamed")
    found, _ = statuses(folder, "evaluation", "cases", "runs")
    assert found["checkpoint of run: ckpt-4.index"] == "ok"


def test_every_file_of_an_image_counts(tmp_path):
    fields = "NDims = 3\nDimSize = 1 1 2\nElementType = MET_UCHAR\nElementDataFile = v.raw\n"
    (tmp_path / "volume-3.mhd").write_text(fields)
    (tmp_path / "v.raw").write_bytes(b"ab")
    header = digest(tmp_path / "volume-3.mhd")
    first = image_digest(tmp_path / "volume-3.mhd")
    (tmp_path / "v.raw").write_bytes(b"ac")
    assert len({header, first, image_digest(tmp_path / "volume-3.mhd")}) == 3
    shutil.copy(tmp_path / "volume-3.mhd", tmp_path / "volume-3.mha")  # a header with another ending
    assert image_digest(tmp_path / "volume-3.mha") != digest(tmp_path / "volume-3.mha")


def test_files_that_are_not_part_of_a_series_do_not_count(tmp_path):
    for name in ("1.dcm", "2.dcm"):
        (tmp_path / name).write_bytes(name.encode())
    first = image_digest(tmp_path)
    (tmp_path / ".DS_Store").write_text("a file manager looked at the folder")
    (tmp_path / "notes.txt").write_text("notes")
    assert image_digest(tmp_path) == first
    (tmp_path / "2.dcm").write_bytes(b"other voxels")
    assert image_digest(tmp_path) != first


def test_the_command_exits_with_1_if_a_file_differs(folder, capsys):
    files = ["--files", str(folder / "cases"), "--files", str(folder / "run")]
    assert main(["verify", str(folder / "evaluation")]) == 0
    assert "\nnot compared: 6 files in other folders, which --files can name" in capsys.readouterr().out
    change(folder / "cases/volume-3.nii.gz")
    (folder / "run/config.gin").unlink()
    assert main(["verify", str(folder / "evaluation"), *files]) == 1
    out, err = capsys.readouterr()
    assert "changed  image of 3: volume-3.nii.gz: " in out
    assert f", now {digest(folder / 'cases/volume-3.nii.gz')[:16]}\n" in out
    assert re.search(r"^missing .*configuration of run: config.gin: [0-9a-f]{16}$", out, re.MULTILINE)
    assert "evaluation: 2 of 8 files are missing or differ from their recorded digests. Fix: restore these files" in err
    assert main(["verify", "--json", str(folder / "predictions")]) == 0
    (fields,) = json.loads(capsys.readouterr().out)
    assert (fields["not_compared"], fields["files"][0]["status"], len(fields["files"][0]["recorded"])) == (4, "ok", 64)


@pytest.mark.parametrize(
    ("name", "code", "text"),
    [
        ("nothing", 1, "does not exist. Fix: give the path of a run"),
        ("cases", 1, "records no digests of files. Fix: give a run, or a result of this program."),
        (None, 2, "verify needs --path. Example: mtf-imaging verify evaluation --files"),
    ],
)
def test_other_paths_are_refused(made, capsys, name, code, text):  # noqa: F811
    assert main(["verify", *([str(made / name)] if name else [])]) == code
    assert text in capsys.readouterr().err
    assert main(["verify", str(made / "evaluation"), "--files", str(made / "nothing")]) == 1
    assert "nothing: is not a folder. Fix: name the folders of the files" in capsys.readouterr().err
