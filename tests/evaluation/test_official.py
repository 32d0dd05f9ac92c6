"""Compares the official scores with the output of the challenge's original program for the same files."""

import json
from pathlib import Path

import nibabel
import numpy as np
import pytest

from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.evaluation.pairs.score import score_folders
from mtf_imaging.evaluation.volume_scores.case import score_case
from mtf_imaging.evaluation.volume_scores.official import official_case, official_scores
from tests.scores import read_rows

PAIRS = Path(__file__).parent / "official_scores"
EXPECTED = json.loads((PAIRS / "scores.json").read_text())


def score(tmp_path, pairs):
    """Scores pairs, given by name, and returns the contents of `metrics.json`."""
    for kind in ("reference", "prediction"):
        (tmp_path / kind).mkdir()
        for name in pairs:
            image = nibabel.load(PAIRS / name / f"{kind}.nii.gz")
            nibabel.save(image, tmp_path / kind / f"{name}.nii.gz")
    score_folders(tmp_path / "reference", tmp_path / "prediction", tmp_path / "out", 1, progress=False)
    return json.loads((tmp_path / "out/metrics.json").read_text())


@pytest.fixture(scope="module")
def metrics(tmp_path_factory):
    folder = tmp_path_factory.mktemp("official")
    return folder / "out", score(folder, EXPECTED)


@pytest.mark.filterwarnings("ignore:.*its affine is the identity")
@pytest.mark.parametrize("name", EXPECTED)
def test_scores_of_each_pair_equal_those_of_the_original_program(metrics, name):
    assert metrics[1]["cases"][name]["official"] == pytest.approx(EXPECTED[name], abs=1e-6)


@pytest.mark.filterwarnings("ignore:.*its affine is the identity")
def test_the_csv_has_the_scores_of_each_case(metrics):
    rows = {row["case"]: row for row in read_rows(metrics[0] / "metrics.csv")}
    for name, expected in EXPECTED.items():
        found = {key: float(rows[name][f"official_{key}"]) for key in expected}
        assert found == pytest.approx(expected, abs=1e-6)


def test_means_over_cases_weigh_each_lesion_equally(metrics):
    official = metrics[1]["official"]
    # 13_diag_touch has 3 lesions; every other pair has one.
    lesions = [pair for name, pair in EXPECTED.items() for _ in range(3 if name == "13_diag_touch" else 1)]
    lesions = [pair for pair in lesions if pair["lesion_assd"] != 9001]
    for measure in ("dice", "rvd", "assd", "msd"):
        expected = np.mean([pair[f"liver_{measure}"] for pair in EXPECTED.values()])
        assert official[f"liver_{measure}"] == pytest.approx(expected)
        assert official[f"lesion_{measure}"] == pytest.approx(np.mean([pair[f"lesion_{measure}"] for pair in lesions]))
    errors = [pair["MAXERROR_Tumorburden"] for pair in EXPECTED.values()]
    assert official["MAXERROR_Tumorburden"] == pytest.approx(max(errors))
    assert official["RMSE_Tumorburden"] == pytest.approx(np.sqrt(np.mean(np.square(errors))))


def random_lesions(seed):
    """Returns a prediction and a reference `[5, 4, 3]` with many overlapping lesions."""
    rng = np.random.default_rng(seed)
    reference, prediction = (np.where(rng.random((5, 4, 3)) < 0.35, 2, 1).astype(np.uint8) for _ in range(2))
    return prediction, reference


def test_lesions_are_numbered_along_the_axes_of_the_file(tmp_path):
    """The program's counts depend on the order of the voxels in the file, not in RAS+."""
    prediction, reference = random_lesions(0)
    affine = np.diag([-1.0, 1, 1.5, 1])
    stored = official_scores([official_case(prediction, reference, (1, 1, 1.5))])
    assert stored != official_scores([official_case(prediction[::-1], reference[::-1], (1, 1, 1.5))])
    for kind, labels in (("p", prediction), ("r", reference)):
        (tmp_path / kind).mkdir()
        nibabel.save(nibabel.Nifti1Image(labels, affine), tmp_path / kind / "1.nii")
    score_folders(tmp_path / "r", tmp_path / "p", tmp_path / "out", 1, progress=False)
    found = json.loads((tmp_path / "out/metrics.json").read_text())["cases"]["1"]["official"]
    assert found == pytest.approx(stored, abs=1e-6)


def test_official_distances_use_the_header_of_the_reference():
    """Our measures use the corrected voxel size of a table; the official scores use the header's."""
    prediction, reference = random_lesions(0)
    header = nibabel.Nifti1Header()
    header.set_data_shape(reference.shape)
    file = Geometry(header, np.diag([2.0, 2, 2, 1]))
    found = score_case("1", prediction, reference, (2.0, 2.0, 2.0), file)
    assert found.official == official_case(prediction, reference, (1.0, 1.0, 1.0))
    assert (
        found.distances["lesion"].mssd
        == 2 * score_case("1", prediction, reference, (1.0, 1.0, 1.0)).distances["lesion"].mssd
    )


def test_scores_are_none_if_the_program_stops_with_an_error():
    empty, liver = np.zeros((3, 3, 3), np.uint8), np.ones((3, 3, 3), np.uint8)
    no_lesion = official_scores([official_case(liver, liver, (1, 1, 1))])
    assert (no_lesion["lesion_dice_per_case"], no_lesion["lesion_dice_global"]) == (1, None)
    no_liver = official_scores([official_case(liver, liver, (1, 1, 1)), official_case(liver, empty, (1, 1, 1))])
    assert (no_liver["RMSE_Tumorburden"], no_liver["MAXERROR_Tumorburden"]) == (None, None)
    assert (no_liver["liver_dice_per_case"], no_liver["liver_assd"]) == (0.5, 4500.5)


def test_a_prediction_of_lesions_alone_has_no_liver():
    labels = np.ones((4, 4, 4), np.uint8)
    labels[1:3, 1:3, 1:3] = 2
    official = official_scores([official_case(np.where(labels == 2, 2, 0), labels, (1, 1, 1))])
    assert (official["liver_dice"], official["liver_dice_global"], official["liver_msd"]) == (0, 0, 9001)
    assert (official["lesion_dice"], official["MAXERROR_Tumorburden"]) == (1, pytest.approx(8 / 64 - 9001))
