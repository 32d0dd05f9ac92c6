"""Prediction and evaluation with an oracle network that reads the labels off the image."""

import json

import nibabel
import numpy as np
import pytest
from matplotlib.layout_engine import ConstrainedLayoutEngine

from mtf_imaging.data.sampling.sampling import Sampling
from mtf_imaging.errors import DataError, ShapeError
from mtf_imaging.evaluation.volume_report.case_picture import picture_pixels
from mtf_imaging.evaluation.volume_report.planes import find_focus
from mtf_imaging.evaluation.volume_scores.summary import dice_per_case
from mtf_imaging.kinds.volumes.segment.segmenter import Segmenter
from tests.data.reading import read_volume
from tests.evaluation.oracle import GRID, array_source, case, oracle, store
from tests.kinds.volumes import evaluate, predict_cases, segment_volume


@pytest.fixture
def folder(tmp_path):
    for number, codes in ((3, "RAS"), (4, "LPS"), (12, "SAL")):
        store(tmp_path / "cases", number, codes)
    return tmp_path / "cases"


def test_evaluation_writes_predictions_metrics_and_pictures(tmp_path, folder, capsys):
    out = tmp_path / "out"
    scores = evaluate(folder, out, GRID, oracle, num_pictures=2)
    assert [case.key for case in scores] == ["3", "4", "12"]
    metrics = json.loads((out / "metrics.json").read_text())
    for mask in ("liver", "lesion"):
        assert metrics[mask].items() >= {"dice_per_case": 1.0, "dice_global": 1.0, "voe": 0.0, "mssd": 0.0}.items()
    assert metrics["detection"]["iou_above_0.5"]["f1"] == 1.0
    files = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    assert files == [
        *(f"calibration/case-{n}.npz" for n in (12, 3, 4)),
        "metrics.csv",
        "metrics.json",
        "pictures/case-3.png",
        "pictures/case-4.png",
        *(f"predictions/segmentation-{n}.nii.gz" for n in (12, 3, 4)),
        "report.html",
    ]
    for number in (3, 4, 12):
        reference = nibabel.load(folder / f"segmentation-{number}.nii.gz")
        written = nibabel.load(out / f"predictions/segmentation-{number}.nii.gz")
        np.testing.assert_array_equal(np.asarray(written.dataobj), np.asarray(reference.dataobj))
        np.testing.assert_array_equal(written.affine, reference.affine)
    assert "per case   1.000   1.000" in capsys.readouterr().out
    evaluate(folder, out, GRID, oracle, num_pictures=0, progress=False)  # the same cases again


def test_scores_are_taken_at_the_volumes_own_resolution(tmp_path, folder):
    """A grid with half the resolution blurs borders, so the score falls below 1; on the grid it would be 1."""
    scores = evaluate(folder, tmp_path / "out", Sampling((12, 10, 8)), oracle, num_pictures=0, progress=False)
    assert 0.7 < dice_per_case([case.overlaps for case in scores], "liver") < 1.0
    assert scores[0].overlaps["liver"].reference == case(0)[1].astype(bool).sum()  # voxels of the volume


def test_a_volume_of_any_shape_is_segmented_in_its_own_voxels(tmp_path):
    labels = store(tmp_path, 5, "PSR", shape=(48, 40, 32))
    (written,) = predict_cases(tmp_path / "volume-5.nii.gz", tmp_path / "out.nii.gz", GRID, oracle, progress=False)
    prediction = np.asarray(nibabel.load(written).dataobj)
    assert prediction.shape == labels.shape
    assert np.mean(prediction == labels) > 0.98


def test_folders_are_predicted_without_labels(tmp_path, folder):
    (folder / "segmentation-4.nii.gz").unlink()
    written = predict_cases(folder, tmp_path / "out", GRID, oracle, progress=False)
    assert [path.name for path in written] == [f"segmentation-{n}.nii.gz" for n in (3, 4, 12)]
    assert all(path.is_file() for path in written)


def test_a_case_whose_name_is_too_long_does_not_stop_the_others(tmp_path, folder):
    """The segmentation of the first case has a name of 255 bytes, that of the second one of 256 bytes."""
    for length in (235, 236):
        (folder / f"volume-{'9' * length}.nii.gz").write_bytes((folder / "volume-3.nii.gz").read_bytes())
    text = r"segmentation-9+\.nii\.gz: this name has 256 bytes, but file systems store at most 255\. Fix: give"
    with pytest.raises(DataError, match=text):
        predict_cases(folder, tmp_path / "out", GRID, oracle, progress=False)
    written = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert written == sorted(f"segmentation-{name}.nii.gz" for name in ("3", "4", "12", "9" * 235))


def test_predictions_are_not_written_to_the_input_folder(tmp_path, folder):
    with pytest.raises(DataError, match="lies in the folder of the cases"):
        predict_cases(folder, folder, GRID, oracle)
    with pytest.raises(DataError, match="lies in the folder of the cases"):
        evaluate(folder, folder / "out", GRID, oracle)
    volume = folder / "volume-3.nii.gz"
    with pytest.raises(DataError, match="would be overwritten"):
        predict_cases(volume, volume, GRID, oracle)
    with pytest.raises(
        DataError, match=r"needs a name that ends in \.nii, \.nii\.gz, \.ome\.zarr, \.mgh, .* \.mha or \.dcm"
    ):
        predict_cases(volume, tmp_path / "out.png", GRID, oracle)
    with pytest.raises(DataError, match=r"out\.nii\.gz: the input .* is a folder, so .* Fix: name a folder"):
        predict_cases(folder, tmp_path / "out.nii.gz", GRID, oracle)
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


def test_an_evaluation_of_other_cases_is_refused(tmp_path, folder):
    evaluate(folder, tmp_path / "out", GRID, oracle, num_pictures=0, progress=False)
    store(tmp_path / "others", 7, "RAS")
    before = (tmp_path / "out/metrics.json").read_bytes()
    with pytest.raises(DataError, match=r"holds 3 prediction\(s\) for cases that .* such as segmentation-12"):
        evaluate(tmp_path / "others", tmp_path / "out", GRID, oracle)
    assert (tmp_path / "out/metrics.json").read_bytes() == before


def test_wrong_results_of_a_network_are_refused(folder):
    volume = read_volume(folder / "volume-3.nii.gz")
    with pytest.raises(ShapeError, match=r"shape \(24, 20, 16, 2\); .* needs \(24, 20, 16, 3\)"):
        segment_volume(volume, GRID, lambda image: oracle(image)[..., :2])
    with pytest.raises(DataError, match=r"volume-3.*NaN or infinity"):
        segment_volume(volume, GRID, lambda image: oracle(image) * np.nan)


def test_the_window_reaches_the_network(folder):
    seen = []
    volume = read_volume(folder / "volume-3.nii.gz")
    segment_volume(volume, GRID, lambda image: seen.append(image) or oracle(image), window=(-400, 400))
    assert np.unique(seen[0]).tolist() == [0.0, 0.5, 1.0]


def test_the_last_bits_of_the_layout_do_not_change_a_picture(monkeypatch):
    """The last bits of the layout engine's result differ between processes, and outlines are sensitive to them."""
    distance = np.sqrt(sum(axis**2 for axis in np.mgrid[-30:30, -25:25, -20:20]))
    labels = (distance < 17).astype(np.uint8) + (distance < 6)
    hu = (-10 * distance).astype(np.int16)

    def draw():
        return picture_pixels(array_source(hu), labels, np.roll(labels, 1, 0), (1.37, 1.37, 1.71), "case 0")

    expected, execute = draw(), ConstrainedLayoutEngine.execute

    def execute_with_other_bits(engine, figure):
        execute(engine, figure)
        for axes in figure.axes:
            axes.set_position([part * (1 + 1e-11) for part in axes.get_position(original=True).bounds])

    monkeypatch.setattr(ConstrainedLayoutEngine, "execute", execute_with_other_bits)
    np.testing.assert_array_equal(draw(), expected)


def test_pictures_show_the_largest_lesion_or_the_liver():
    hu, labels = case()
    labels[0, 0, 0] = 2  # a smaller lesion
    empty, liver = np.zeros_like(labels), np.minimum(labels, 1)
    assert labels[find_focus(labels, liver).point] == 2
    assert find_focus(labels, liver).point != (0, 0, 0)
    assert find_focus(liver, labels).point == find_focus(labels, empty).point
    assert labels[find_focus(liver, liver).point] >= 1
    assert find_focus(empty, liver).point == find_focus(liver, empty).point
    assert find_focus(*np.zeros((2, 4, 6, 8), np.uint8)).point == (2, 3, 4)
    drawn = [picture_pixels(array_source(hu), labels, other, (2.0, 2.0, 3.0), "case 0") for other in (labels, empty)]
    assert drawn[0].shape == drawn[1].shape
    assert (drawn[0] != drawn[1]).any()


@pytest.mark.parametrize("command", ["evaluate", "predict"])
def test_a_case_too_large_for_memory_is_named(tmp_path, folder, monkeypatch, command):
    def too_large(*_):
        raise MemoryError("Unable to allocate 9 GiB")

    monkeypatch.setattr("mtf_imaging.data.images.channels.linear_slabs", too_large)
    function = evaluate if command == "evaluate" else predict_cases
    with pytest.raises(DataError, match=r"volume-3\.nii\.gz: not enough memory \(Unable to allocate 9 GiB\)"):
        function(folder, tmp_path / "out", GRID, oracle, progress=False)


@pytest.mark.parametrize(("there", "name"), [("config.gin", ""), ("ckpt-20.index", ""), ("config.gin", "eval")])
def test_results_are_not_written_to_the_folder_of_a_run(tmp_path, folder, there, name):
    run = tmp_path / "run"
    run.mkdir()
    (run / there).touch()
    with pytest.raises(
        DataError, match=r"training writes to this folder, because .*run is the folder of a run\. Fix: .*evaluat"
    ):
        evaluate(folder, run / name, GRID, oracle, progress=False)
    with pytest.raises(DataError, match="training writes to this folder"):
        predict_cases(folder, run / name, GRID, oracle, progress=False)
    with pytest.raises(DataError, match="training writes to this folder"):
        predict_cases(folder / "volume-3.nii.gz", run / name / "segmentation.nii.gz", GRID, oracle, progress=False)
    assert [path.name for path in run.rglob("*")] == [there]
    evaluate(folder, run / "evaluation", GRID, oracle, num_pictures=0, progress=False)


@pytest.mark.parametrize("command", ["evaluate", "predict"])
def test_all_unusable_cases_are_reported_after_the_others_are_segmented(tmp_path, folder, monkeypatch, command):
    segmented, opened = [], Segmenter.open

    def open_or_fail(segmenter, case):
        if case.key in ("3", "12"):
            raise {"3": KeyError("axis"), "12": DataError(f"{case.volume}: damaged.")}[case.key]
        segmented.append(case.key)
        return opened(segmenter, case)

    monkeypatch.setattr(Segmenter, "open", open_or_fail)
    function = evaluate if command == "evaluate" else predict_cases
    with pytest.raises(DataError) as caught:
        function(folder, tmp_path / "out", GRID, oracle, progress=False)
    head, *lines = str(caught.value).splitlines()
    assert head == "2 of 3 cases cannot be used:"
    assert lines[0].startswith(f"  {folder}/volume-3.nii.gz: cannot be used (KeyError: 'axis')")
    assert lines[1] == f"  {folder}/volume-12.nii.gz: damaged."
    assert segmented == ["4"]
    written = [path.name for path in (tmp_path / "out").rglob("segmentation-*")]
    assert written == ["segmentation-4.nii.gz"]
    assert not (tmp_path / "out/metrics.json").exists()  # scores of fewer cases could go unnoticed


def test_an_unreadable_volume_is_reported_before_any_is_segmented(tmp_path, folder):
    (folder / "volume-12.nii.gz").write_bytes(b"no NIfTI")

    def predict(image):
        raise AssertionError("segmentation began")

    with pytest.raises(DataError, match=r"volume-12\.nii\.gz: "):
        predict_cases(folder, tmp_path / "out", GRID, predict, progress=False)
    with pytest.raises(DataError, match=r"volume-12\.nii\.gz: "):
        evaluate(folder, tmp_path / "out", GRID, predict, progress=False)
    assert not (tmp_path / "out").exists()
