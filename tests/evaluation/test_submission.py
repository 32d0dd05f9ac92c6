"""Submissions to the challenge: file names, file contents and the zip."""

import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import nibabel
import numpy as np
import pytest

from mtf_imaging.data.sampling.sampling import Sampling
from mtf_imaging.errors import DataError
from mtf_imaging.evaluation.pairs.score import score_folders
from mtf_imaging.kinds.volumes.segment.submission import NUM_TEST_CASES, how_to_submit
from tests.evaluation.oracle import oracle
from tests.kinds.volumes import predict_cases

GRID = Sampling((8, 7, 6))


def labels_of(number):
    return np.random.default_rng(number).integers(0, 3, (8, 7, 6)).astype(np.uint8)


def store(folder, *names):
    folder.mkdir(exist_ok=True)
    for name in names:
        number = int("".join(filter(str.isdigit, name)) or 0)
        image = nibabel.Nifti1Image(np.int16(labels_of(number)) * 400 - 400, np.diag([-1.5, -1.5, 3, 1]))
        image.header["descrip"] = f"case {number}".encode()
        nibabel.save(image, folder / name)
    return folder


def submit(folder, output, progress=False, **options):
    return predict_cases(folder, output, GRID, oracle, progress=progress, submission=True, **options)


def test_files_have_the_format_of_the_challenge(tmp_path):
    folder = store(tmp_path / "test", "test-volume-3.nii", "test-volume-12.nii.gz")
    written = submit(folder, tmp_path / "submission")
    assert [path.name for path in written] == ["test-segmentation-3.nii", "test-segmentation-12.nii"]
    assert sorted(path.name for path in (tmp_path / "submission").iterdir()) == sorted(path.name for path in written)
    for path, source, number in zip(written, ("test-volume-3.nii", "test-volume-12.nii.gz"), (3, 12)):
        image, volume = nibabel.load(path), nibabel.load(folder / source)
        assert path.stat().st_size == 352 + 8 * 7 * 6  # the header and one byte per voxel
        assert image.get_data_dtype() == np.uint8
        assert (image.shape, image.header["descrip"]) == (volume.shape, volume.header["descrip"])
        np.testing.assert_array_equal(image.affine, volume.affine)
        np.testing.assert_array_equal(np.asarray(image.dataobj), labels_of(number))


@pytest.mark.parametrize(
    ("names", "offender"),
    [
        (["volume-3.nii"], "volume-3.nii"),
        (["test-volume-2.nii", "volume-10.nii", "volume-11.nii"], "volume-10.nii"),
        (["patient.nii.gz"], "patient.nii.gz"),
        (["test-volume-007.nii"], "test-volume-007.nii"),
        (["test-volume-69.nii", "test-volume-70.nii"], "test-volume-70.nii"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_cases_are_refused_with_the_name_of_the_first(tmp_path, names, offender):
    folder = store(tmp_path / "cases", *names)
    with pytest.raises(DataError) as error:
        submit(folder, tmp_path / "out")
    assert str(error.value) == (
        f"{folder / offender}: is not a test case of the challenge. Test cases are named test-volume-N.nii or "
        f"test-volume-N.nii.gz, N = 0..69. Fix: name a folder with only test cases instead of {folder}, or predict "
        "without submission."
    )
    assert error.value.settings == ("submission",)
    assert not (tmp_path / "out").exists()


def test_a_submission_needs_a_folder_and_is_replaced_only_on_request(tmp_path):
    folder = store(tmp_path / "test", "test-volume-3.nii")
    with pytest.raises(DataError, match=r"test-volume-3\.nii: is one image; a submission needs the folder"):
        submit(folder / "test-volume-3.nii", tmp_path / "out.nii")
    with pytest.raises(DataError, match="lies in the folder of the cases"):
        submit(folder, folder / "out")
    submit(folder, tmp_path / "out")
    with pytest.raises(DataError, match=r"test-segmentation-3\.nii: already exists"):
        submit(folder, tmp_path / "out")
    submit(folder, tmp_path / "out", overwrite=True)


def test_the_printed_command_makes_the_zip(tmp_path, capsys, monkeypatch):
    """The folder has a space in its name, so the command must quote it."""
    folder = store(tmp_path / "test", "test-volume-3.nii", "test-volume-12.nii.gz")
    monkeypatch.chdir(tmp_path)
    submit(folder, Path("my submission"), progress=True)
    out = capsys.readouterr().out
    assert (
        "2 segmentations in my submission; the challenge has 70 test cases, missing: 0, 1, 2, 4, 5, 6, 7, 8, ..." in out
    )
    command = out.splitlines()[-1].strip()
    assert command == "python3 -m zipfile -c submission.zip 'my submission'/test-segmentation-*.nii"
    subprocess.run(command.replace("python3", shlex.quote(sys.executable)), shell=True, check=True)
    with zipfile.ZipFile("submission.zip") as archive:
        assert sorted(archive.namelist()) == ["test-segmentation-12.nii", "test-segmentation-3.nii"]
    names = [Path("out") / f"test-segmentation-{n}.nii" for n in range(NUM_TEST_CASES)]
    assert how_to_submit(names).splitlines()[0] == "70 segmentations in out"


def test_a_submission_is_scored_by_the_numbers_of_its_files(tmp_path):
    """Users can score a custom split whose files are named like the test cases of the challenge."""
    submit(store(tmp_path / "test", "test-volume-3.nii", "test-volume-4.nii"), tmp_path / "out")
    (tmp_path / "references").mkdir()
    for n in (3, 4):
        image = nibabel.Nifti1Image(labels_of(n), np.diag([-1.5, -1.5, 3, 1]))
        nibabel.save(image, tmp_path / f"references/segmentation-{n}.nii")
    scores = score_folders(tmp_path / "references", tmp_path / "out", tmp_path / "scores", workers=1, progress=False)
    assert [case.overlaps["lesion"].dice for case in scores] == [1.0, 1.0]
