"""Pairing and scoring of folders with arbitrary file names and axes; the scores equal those of `evaluate`."""

import errno
import os

import nibabel
import numpy as np
import pytest
from nibabel import orientations

from mtf_imaging.cli.main import main
from mtf_imaging.errors import DataError
from mtf_imaging.evaluation.pairs.pairs import find_pairs
from mtf_imaging.evaluation.pairs.score import score_folders
from tests.evaluation.oracle import GRID, oracle, store
from tests.kinds.volumes import evaluate
from tests.scores import read_scores


def touch(folder, *names):
    folder.mkdir()
    for name in names:
        (folder / name).touch()
    return folder


@pytest.mark.parametrize(
    ("references", "predictions", "keys"),
    [
        (["segmentation-2.nii", "segmentation-10.nii.gz"], ["segmentation-10.nii", "segmentation-2.nii"], ["2", "10"]),
        (["segmentation-2.nii", "volume-2.nii"], ["test-segmentation-2.nii.gz"], ["2"]),
        (["liver_007.nii.gz", "liver_010.nii.gz"], ["7_pred.nii", "10_pred.nii"], ["7", "10"]),
        (["anna.nii", "bob.nii"], ["bob.nii.gz", "anna.nii.gz", ".partial-1-carl.nii"], ["anna", "bob"]),
    ],
)
def test_pairs(tmp_path, references, predictions, keys):
    pairs = find_pairs(touch(tmp_path / "r", *references), touch(tmp_path / "p", *predictions))
    assert [pair.key for pair in pairs] == keys
    assert {pair.prediction.name for pair in pairs} == {name for name in predictions if "partial" not in name}


@pytest.mark.parametrize(
    ("references", "predictions", "message"),
    [
        (["s-1.nii", "s-2.nii"], ["s-2.nii"], r"1 file\(s\) have no partner in .*s-1\.nii has no prediction"),
        (["s-1.nii"], ["s-1.nii", "s-3.nii"], r"s-3\.nii has no reference"),
        (["s-1.nii"], ["a-1.nii", "b-01.nii"], r"a-1\.nii and b-01\.nii are both case 1"),
        (["anna.nii"], ["p1.nii"], r"anna\.nii: the file name has no number"),
        ([], ["p1.nii"], r"r: holds no \.nii, \.nii\.gz, \.zarr, \.ome\.zarr, .* \.mhd or \.dcm file"),
    ],
)
def test_files_without_a_partner_are_refused(tmp_path, references, predictions, message):
    with pytest.raises(DataError, match=message):
        find_pairs(touch(tmp_path / "r", *references), touch(tmp_path / "p", *predictions))


def test_broken_links_are_named(tmp_path):
    folders = [touch(tmp_path / name, "s-1.nii") for name in "rp"]
    for folder in folders:
        (folder / "s-2.nii").symlink_to(tmp_path / "gone.nii")
    with pytest.raises(DataError, match=r"1 link\(s\) point to missing files: .*s-2\.nii -> .*gone\.nii\. Fix: "):
        find_pairs(*folders)


def test_an_unreadable_folder_is_named(tmp_path, monkeypatch):
    """Simulates the error, because root can read every folder; `tests/data` tests a real error."""
    folders = [touch(tmp_path / name, "s-1.nii") for name in "rp"]

    def scandir(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(DataError, match=rf"{folders[0]}: Permission denied\. Fix: allow"):
        find_pairs(*folders)


def test_a_missing_folder_is_reported(tmp_path, capsys):
    words = ["--reference_dir", tmp_path / "no", "--prediction_dir", tmp_path, "--output_dir", tmp_path / "out"]
    assert main(["score", *map(str, words)]) == 1
    assert "no: this folder of segmentations does not exist" in capsys.readouterr().err
    (tmp_path / "no").touch()
    assert main(["score", *map(str, words)]) == 1
    assert "no: this folder of segmentations is a file, not a folder." in capsys.readouterr().err


def test_score_and_evaluate_give_equal_scores(tmp_path, capsys):
    for number, codes in ((3, "RAS"), (12, "SAL")):
        store(tmp_path / "cases", number, codes)
    evaluate(tmp_path / "cases", tmp_path / "e", GRID, lambda image: oracle(np.roll(image, 1, 1)), progress=False)
    words = ["--reference_dir", tmp_path / "cases", "--prediction_dir", tmp_path / "e/predictions"]
    assert main(["score", *map(str, words), "--output_dir", str(tmp_path / "s"), "--workers", "1"]) == 0
    assert (tmp_path / "s/metrics.csv").read_bytes() == (tmp_path / "e/metrics.csv").read_bytes()
    scores, evaluated = (read_scores(tmp_path / name) for name in ("s", "e"))
    assert evaluated.pop("calibration")  # scores of labels know no probabilities
    assert [*scores.items()] == [*evaluated.items()]
    assert 0 < scores["lesion"]["dice_per_case"] < 1
    assert "tumor burden: RMSE" in capsys.readouterr().out


def test_predictions_stored_along_other_axes_are_reoriented(tmp_path):
    store(tmp_path / "cases", 3, "RAS")
    image = nibabel.load(tmp_path / "cases/segmentation-3.nii.gz")
    turned = image.as_reoriented(orientations.axcodes2ornt("SAL"))
    (tmp_path / "p").mkdir()
    nibabel.save(turned, tmp_path / "p/other_3.nii")
    (case,) = score_folders(tmp_path / "cases", tmp_path / "p", tmp_path / "out", workers=1, progress=False)
    assert case.overlaps["lesion"].dice == 1
    assert case.distances["liver"].mssd == 0


def test_scores_are_not_written_to_the_folder_of_the_references(tmp_path):
    store(tmp_path / "cases", 3, "RAS")
    with pytest.raises(DataError, match="lies in the folder of the cases"):
        score_folders(tmp_path / "cases", tmp_path / "cases", tmp_path / "cases/out", progress=False)
