"""Cases in NIfTI, OME-Zarr and DICOM: the same segmentation and scores, in the place of each volume."""

import shutil

import nibabel
import numpy as np
import pytest
import SimpleITK
import zarr

from mtf_imaging.data.cases.cases import find_cases
from mtf_imaging.data.sampling.sampling import Sampling
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.evaluation.pairs.score import score_folders
from mtf_imaging.kinds.volumes.evaluate import cases_to_evaluate
from tests.data.dicom_folder import write_series
from tests.data.reading import read_mask, read_volume
from tests.data.zarr_image import plant_code, write_image
from tests.evaluation.oracle import HU_OF_LABEL, oracle
from tests.kinds.volumes import evaluate, plan_predictions, predict_cases
from tests.records import make_record
from tests.scores import read_scores

SHAPE = (9, 8, 7)
LPS_ORIGIN = (-3.0, 4.0, 20.0)
AFFINE = nibabel.affines.from_matvec(np.diag([0.5, 0.75, 2.5]), (-1.0, -9.25, 20.0))  # of the canonical array


def labels_of(seed=0):
    labels = np.zeros(SHAPE, np.uint8)
    labels[2:8, 1:6, 2:6] = 1
    labels[3 + seed : 5 + seed, 2:4, 3:5] = 2
    return labels


def write_nifti(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    nibabel.save(nibabel.Nifti1Image(array, AFFINE), path)
    return path


def write_dicom(path, hu):
    return write_series(path, hu[::-1, ::-1] + np.int16(1024), origin=LPS_ORIGIN)


def write_zarr(path, array):
    return write_image(path, array, mtf_imaging={"affine": AFFINE.tolist()}, scale=(0.5, 0.75, 2.5))


WRITERS = {".nii.gz": write_nifti, ".ome.zarr": write_zarr, "": write_dicom}


@pytest.fixture
def cases_dir(tmp_path):
    """Three cases: NIfTI, OME-Zarr and DICOM, the second one with a mask in OME-Zarr."""
    folder = tmp_path / "cases"
    for number, ending in enumerate(WRITERS, 1):
        labels = labels_of(number - 1)
        WRITERS[ending](folder / f"volume-{number}{ending}", HU_OF_LABEL[labels])
        mask = ".ome.zarr" if number == 2 else ".nii.gz"
        WRITERS[mask](folder / f"segmentation-{number}{mask}", labels)
    return folder


def test_all_formats_hold_the_same_volume(tmp_path):
    hu = HU_OF_LABEL[labels_of()]
    for ending, write in WRITERS.items():
        volume = read_volume(write(tmp_path / f"volume{ending}", hu))
        np.testing.assert_array_equal(volume.hu, hu)
        np.testing.assert_allclose(volume.geometry.canonical_affine, AFFINE, atol=1e-6)


def test_records_do_not_depend_on_the_format(tmp_path):
    labels, records = labels_of(), []
    for number, (ending, write) in enumerate(WRITERS.items()):
        folder = tmp_path / str(number)
        write(folder / f"volume-3{ending}", HU_OF_LABEL[labels])
        write_nifti(folder / "segmentation-3.nii.gz", labels)
        (case,) = find_cases(folder)
        records.append(make_record(case, Sampling((5, 4, 6))))
    for record in records[1:]:
        np.testing.assert_array_equal(record.image, records[0].image)
        np.testing.assert_array_equal(record.labels, records[0].labels)
        np.testing.assert_allclose(record.affine, records[0].affine, atol=1e-6)
    assert len({record.source for record in records}) == 3
    again = make_record(case, Sampling((5, 4, 6)))
    assert again.source == records[2].source
    plane = next((folder / "volume-3").iterdir())
    plane.write_bytes(plane.read_bytes()[:-2] + b"\0\0")
    assert case.digest() != again.source


# (ending of the volume, name of the output, output format, file that is written)
OUTPUTS = [
    (".nii.gz", "s.nii", None, "s.nii"),
    (".nii.gz", "s.ome.zarr", None, "s.ome.zarr"),
    (".nii.gz", "folder", None, "folder/segmentation-3.nii.gz"),
    (".nii.gz", "folder", "ome-zarr", "folder/segmentation-3.ome.zarr"),
    (".ome.zarr", "s.nii.gz", None, "s.nii.gz"),
    (".ome.zarr", "s.ome.zarr", "ome-zarr", "s.ome.zarr"),
    (".ome.zarr", "folder", None, "folder/segmentation-3.ome.zarr"),
    (".ome.zarr", "folder", "nifti", "folder/segmentation-3.nii.gz"),
    ("", "s.nii.gz", None, "s.nii.gz"),
    ("", "s.zarr", None, "s.zarr"),
    ("", "folder", None, "folder/segmentation-3.nii.gz"),
    ("", "folder", "ome-zarr", "folder/segmentation-3.ome.zarr"),
]


@pytest.mark.parametrize(("ending", "output", "output_format", "expected"), OUTPUTS)
def test_one_volume_is_segmented(tmp_path, ending, output, output_format, expected):
    labels = labels_of()
    path = WRITERS[ending](tmp_path / f"volume-3{ending}", HU_OF_LABEL[labels])
    (tmp_path / "folder").mkdir()
    planned = plan_predictions(path, tmp_path / output, output_format=output_format)
    (written,) = predict_cases(path, tmp_path / output, Sampling(SHAPE), oracle, progress=False, planned=planned)
    assert written == tmp_path / expected
    np.testing.assert_array_equal(read_mask(written, read_volume(path)).labels, labels)
    if written.suffix == ".zarr":
        assert sorted(np.unique(zarr.open_array(written / "0", mode="r")[...])) == [0, 1, 2]
    with pytest.raises(DataError, match=r"already exists\. Fix: name another output, or set overwrite"):
        plan_predictions(path, tmp_path / output, output_format=output_format)
    (again,) = predict_cases(path, tmp_path / output, Sampling(SHAPE), oracle, progress=False, overwrite=True)
    assert again.exists()


def test_no_command_runs_code_of_an_image(tmp_path):
    cases, predictions = tmp_path / "cases", tmp_path / "predictions"
    for folder, name, array in (
        (cases, "volume", HU_OF_LABEL[labels_of()]),
        (cases, "segmentation", labels_of()),
        (predictions, "segmentation", labels_of()),
    ):
        write_image(folder / f"{name}-3.ome.zarr", array, version="0.4")
    plant_code(cases / "volume-3.ome.zarr", tmp_path / "attacked")
    for call in (
        lambda: predict_cases(cases / "volume-3.ome.zarr", tmp_path / "s.nii", Sampling(SHAPE), oracle, progress=False),
        lambda: evaluate(cases, tmp_path / "evaluation", Sampling(SHAPE), oracle, progress=False),
    ):
        with pytest.raises(DataError, match=r"volume-3.ome.zarr/full/.zarray: its chunks have the codec 'pickle'"):
            call()
    for folder in (cases, predictions):
        path = plant_code(folder / "segmentation-3.ome.zarr", tmp_path / "attacked")
        text = r"segmentation-3.ome.zarr/full/.zarray: its chunks have the codec 'pickle'"
        with pytest.raises(DataError, match=text):
            score_folders(cases, predictions, tmp_path / f"scores-{folder.name}", 1, progress=False)
        shutil.rmtree(path)
        write_image(path, labels_of(), version="0.4")
    assert not (tmp_path / "attacked").exists()


def test_itk_puts_a_prediction_on_its_series(tmp_path):
    folder = write_dicom(tmp_path / "series", HU_OF_LABEL[labels_of()])
    (written,) = predict_cases(folder, tmp_path / "out.nii.gz", Sampling(SHAPE), oracle, progress=False)
    reader = SimpleITK.ImageSeriesReader()
    reader.SetFileNames(reader.GetGDCMSeriesFileNames(str(folder)))
    volume, prediction = reader.Execute(), SimpleITK.ReadImage(str(written))
    assert prediction.GetSize() == volume.GetSize()
    np.testing.assert_allclose(prediction.GetOrigin(), volume.GetOrigin(), atol=1e-5)
    np.testing.assert_allclose(prediction.GetSpacing(), volume.GetSpacing(), atol=1e-6)
    np.testing.assert_allclose(prediction.GetDirection(), volume.GetDirection(), atol=1e-6)
    expected = np.searchsorted(HU_OF_LABEL, SimpleITK.GetArrayFromImage(volume))
    np.testing.assert_array_equal(SimpleITK.GetArrayFromImage(prediction), expected)


def test_cases_of_mixed_formats_are_found(cases_dir):
    cases = find_cases(cases_dir)
    assert [case.key for case in cases] == ["1", "2", "3"]
    assert [case.volume.name for case in cases] == ["volume-1.nii.gz", "volume-2.ome.zarr", "volume-3"]
    assert [case.labels.name for case in cases] == [
        "segmentation-1.nii.gz",
        "segmentation-2.ome.zarr",
        "segmentation-3.nii.gz",
    ]
    assert [case.prediction_name for case in cases] == [
        "segmentation-1.nii.gz",
        "segmentation-2.ome.zarr",
        "segmentation-3.nii.gz",
    ]


def test_a_folder_of_series_needs_no_names(tmp_path):
    for patient in ("b", "a"):
        write_dicom(tmp_path / "dicom" / patient / f"{patient}_ct", HU_OF_LABEL[labels_of()])
    cases = find_cases(tmp_path / "dicom", need_labels=False)
    assert [(case.key, case.prediction_name) for case in cases] == [("a_ct", "a_ct.nii.gz"), ("b_ct", "b_ct.nii.gz")]


@pytest.mark.slow
def test_evaluate_and_score_read_all_formats(cases_dir, tmp_path):
    for output_format, ending in ((None, None), ("nifti", ".nii.gz"), ("ome-zarr", ".ome.zarr")):
        output = tmp_path / f"evaluation-{output_format}"
        cases = cases_to_evaluate(cases_dir, output, output_format=output_format)
        scores = evaluate(cases_dir, output, Sampling(SHAPE), oracle, progress=False, cases=cases)
        assert [score.key for score in scores] == ["1", "2", "3"]
        assert all(overlap.dice == 1 for score in scores for overlap in score.overlaps.values())
        names = sorted(path.name for path in (output / "predictions").iterdir() if not path.name.startswith("."))
        if ending:
            assert names == [f"segmentation-{number}{ending}" for number in (1, 2, 3)]
        again = tmp_path / f"scores-{output_format}"
        score_folders(cases_dir, output / "predictions", again, 1, progress=False)
        evaluated = read_scores(output)
        assert evaluated.pop("calibration")  # scores of labels know no probabilities
        assert evaluated == read_scores(again)


# name: (input, output, options, error, text)
REFUSED = {
    "another ending": ("volume-2.ome.zarr", "out.png", {}, DataError, r"ends in \.nii, .*, \.mha or \.dcm\."),
    "ending of the other format": (
        "volume-2.ome.zarr",
        "out.nii",
        {"output_format": "ome-zarr"},
        DataError,
        r"out.nii: .* needs a name that ends in \.ome\.zarr with output_format 'ome-zarr'",
    ),
    "unknown format": (
        "volume-3",
        "out.nii",
        {"output_format": "zara"},
        ConfigError,
        "output_format = 'zara' is not known",
    ),
    "a submission": (
        "",
        "out",
        {"output_format": "ome-zarr", "submission": True},
        ConfigError,
        "the LiTS challenge takes NIfTI files",
    ),
    "a file for several cases": ("", "out.ome.zarr", {}, DataError, "so the output must be a folder, too"),
    "itself": ("volume-2.ome.zarr", "cases/volume-2.ome.zarr", {}, DataError, "lies in the folder of the cases"),
    "missing image": ("volume-4.ome.zarr", "out.nii", {}, DataError, "this volume does not exist"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unusable_outputs_are_refused(cases_dir, name):
    volume, output, options, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        plan_predictions(cases_dir / volume, cases_dir.parent / output, **options)


@pytest.mark.parametrize("name", ["volume-2.ome.zarr", "volume-3"])
def test_one_image_is_no_folder_of_cases(cases_dir, name):
    with pytest.raises(DataError, match="this folder is one image, not a folder of cases"):
        find_cases(cases_dir / name)


def test_a_zarr_group_without_the_ending_is_named(cases_dir):
    """The images of a collection, which Bio-Formats writes, are such groups; links give them a name."""
    collection = cases_dir / "collection"
    write_zarr(collection / "0", HU_OF_LABEL[labels_of()])
    with pytest.raises(DataError, match=r"collection/0: is a Zarr group, but the name .* ends in \.ome\.zarr\. Fix"):
        find_cases(collection / "0", need_labels=False)
    link = cases_dir.parent / "scan.ome.zarr"
    link.symlink_to(collection / "0")
    (case,) = find_cases(link, need_labels=False)
    np.testing.assert_array_equal(read_volume(case.volume).hu, HU_OF_LABEL[labels_of()])


def test_a_file_of_a_series_is_no_image(cases_dir):
    file = next((cases_dir / "volume-3").iterdir())
    with pytest.raises(
        DataError, match=r"is one file of a DICOM series\. Fix: give the folder of the series, .*volume-3"
    ):
        find_cases(file, need_labels=False)
