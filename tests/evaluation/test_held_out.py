"""Scoring of held-out records on their grid by the rules of the evaluation, and the picture of one record."""

import numpy as np
import pytest
from PIL import ImageColor

from mtf_imaging.data.records.convert import convert
from mtf_imaging.data.records.data_set import Records
from mtf_imaging.data.records.manifest import Manifest, Source, record_path, write_manifest
from mtf_imaging.data.sampling.grid import format_grid
from mtf_imaging.data.sampling.sampling import Sampling
from mtf_imaging.errors import DataError, ShapeError
from mtf_imaging.evaluation.report.colors import LITS_COLORS
from mtf_imaging.evaluation.volume_scores.summary import summarize
from mtf_imaging.kinds.volumes.held_out import HeldOutRecords
from tests.evaluation import oracle as reader
from tests.kinds.volumes import evaluate
from tests.records import Record, write_record

GRID = (8, 6, 4)


@pytest.fixture
def folder(tmp_path):
    """A folder with the records of a liver with a lesion and a liver without."""
    sampling = Sampling(GRID, None)
    for key in ("3", "12"):
        labels = np.zeros(GRID, np.uint8)
        labels[2:6, 1:5] = 1
        labels[3:5, 2:4, 1:3] = 2 if key == "3" else 1
        record = Record(
            key=key,
            image=reader.HU_OF_LABEL[labels],
            labels=labels,
            affine=np.eye(4),
            shape=(16, 6, 4),
            spacing=(1.0, 2.0, 3.0),
            sampled_at=None,
            axis_codes="RAS",
            source="",
        )
        write_record(record_path(tmp_path, key), record)
    eye = tuple(map(tuple, np.eye(4).tolist()))
    source = Source("", "volume", "labels", (16, 6, 4), (1.0, 2.0, 3.0), eye, "RAS")
    write_manifest(tmp_path, Manifest(sampling, {"3": source, "12": source}))
    return tmp_path


def oracle(image):
    """Reads the labels off an image with the window (-500, 500)."""
    assert image.shape == (*GRID, 1)
    return np.exp(-np.abs(image * 1000 - 500 - reader.HU_OF_LABEL) / 100)


def all_liver(image):
    return np.broadcast_to([0.1, 0.8, 0.1], (*image.shape[:3], 3))


def score(folder, predict):
    return HeldOutRecords(Records((-500.0, 500.0)), progress=False).open(folder, GRID)(predict)


def test_scores_are_means_of_cases(folder):
    assert score(folder, oracle)[0] == {"liver": 1.0, "lesion": 1.0}
    scores, _ = score(folder, all_liver)
    # The liver has 4 x 4 x 4 of 8 x 6 x 4 voxels. No lesion is predicted, which is right in one of the two cases.
    assert scores == {"liver": 2 * 64 / (64 + 192), "lesion": 0.5}


def test_scores_equal_an_evaluation_of_cases_on_the_same_grid(tmp_path):
    cases, sampling = tmp_path / "cases", reader.GRID
    for number, axes in ((3, "RAS"), (4, "LPS")):
        reader.store(cases, number, axes)
    convert(cases, tmp_path / "records", format_grid(sampling.grid), progress=False)

    def predict(image):
        return reader.oracle(np.roll(image, 1, axis=1))

    expected = evaluate(cases, tmp_path / "evaluation", sampling, predict, progress=False)
    scores, _ = HeldOutRecords(progress=False).open(tmp_path / "records", sampling.grid)(predict)
    assert 0 < scores["lesion"] < scores["liver"] < 1
    assert scores == {name: summarize(expected)[name]["dice_per_case"] for name in scores}


def test_the_first_case_is_drawn_with_reference_and_prediction(folder):
    _, right = score(folder, oracle)
    _, wrong = score(folder, all_liver)
    (pixels,) = right.values()
    assert right.keys() == {"case 3"}
    assert pixels.dtype == np.uint8
    assert pixels.shape[2] == 3
    green, red = ((pixels == ImageColor.getrgb(color)).all(axis=2).sum() for color in LITS_COLORS.values())
    assert green > 50
    assert red > 50
    assert (wrong["case 3"] != pixels).any(axis=2).sum() > 50


def test_the_network_gets_one_case_at_a_time(folder):
    asked = []
    score(folder, lambda image: asked.append(image.dtype) or oracle(image))
    assert asked == [np.float32, np.float32]


def test_probabilities_in_half_precision(folder):
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    assert score(folder, lambda image: oracle(image).astype(bfloat16))[0] == {"liver": 1.0, "lesion": 1.0}


@pytest.mark.parametrize(
    ("predict", "error", "text"),
    [
        (lambda image: image, ShapeError, r"case-3\.ome\.zarr: .* of shape \(8, 6, 4, 1\); .* needs \(8, 6, 4, 3\)"),
        (lambda image: oracle(image) + np.nan, DataError, r"case-3\.ome\.zarr: the network returned NaN"),
    ],
)
def test_invalid_probabilities_are_refused(folder, predict, error, text):
    with pytest.raises(error, match=text):
        score(folder, predict)


@pytest.mark.parametrize(("sizes", "spacing"), [((8, 8, 4), None), (GRID, "1,1,1")])
def test_records_of_another_sampling_are_refused_first(folder, sizes, spacing):
    with pytest.raises(DataError, match="the records have resolution x:8,y:6,z:4, not "):
        HeldOutRecords(Records(spacing=spacing)).open(folder, sizes)
