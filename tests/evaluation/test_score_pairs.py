"""Scoring of pairs in a thread or in processes, the order of the results, and the lookup of CTs."""

import dataclasses
import functools
import logging
import threading
import time

import nibabel
import numpy as np
import pytest

from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.evaluation.pairs.pairs import Pair, find_pairs
from mtf_imaging.evaluation.pairs.running import in_thread
from mtf_imaging.evaluation.pairs.score_pairs import score_pair, score_pairs
from mtf_imaging.evaluation.pairs.volumes import add_volumes
from mtf_imaging.files.case_errors import case_errors
from mtf_imaging.files.output_folder import writing_to
from mtf_imaging.files.workers import in_parallel
from tests import waiting
from tests.evaluation.oracle import store


def store_pairs(folder, *numbers):
    for number in numbers:
        store(folder, number, "RAS")
    files = {number: folder / f"segmentation-{number}.nii.gz" for number in numbers}
    return [Pair(str(number), file, file, folder / f"volume-{number}.nii.gz") for number, file in files.items()]


def test_each_item_is_processed_while_the_next_is_produced():
    begun, made = threading.Event(), []

    def items():
        yield 1
        assert begun.wait(waiting.PATIENCE), "item 1 is processed before item 2 exists"
        yield from (2, 3)

    def work(item):
        begun.set()
        made.append(threading.current_thread())
        return 10 * item

    assert list(in_thread(work, items())) == [(1, 10), (2, 20), (3, 30)]
    assert len(set(made)) == 1
    assert threading.current_thread() not in made


def test_the_first_error_stops_the_items():
    made = []

    def endless():
        while True:
            made.append(len(made))
            assert len(made) < 1000, "the error is never raised"
            time.sleep(0.01)
            yield made[-1]

    def work(item):
        if item == 1:
            raise DataError("this one")

    with pytest.raises(DataError, match="this one"):
        list(in_thread(work, endless()))


def test_an_error_in_the_items_cancels_pending_work():
    release, worked = threading.Event(), []

    def items():
        yield from range(5)
        release.set()
        raise DataError("no more")

    def work(item):
        release.wait(waiting.PATIENCE)
        worked.append(item)

    with pytest.raises(DataError, match="no more"):
        list(in_thread(work, items()))
    assert len(worked) < 5


@pytest.mark.parametrize("run", [in_thread, functools.partial(in_parallel, workers=1)])
def test_pairs_come_back_in_natural_order(tmp_path, run, capsys):
    pairs = store_pairs(tmp_path, 2, 10, 9)
    result = score_pairs(pairs, 3, run, "test")
    assert [one.score.key for one in result] == ["2", "9", "10"]
    assert "9: liver 1.000, lesion 1.000" in capsys.readouterr().err


@pytest.mark.slow
def test_the_log_of_a_worker_reaches_the_parent(tmp_path, caplog):
    pairs = store_pairs(tmp_path, 1, 2)
    nibabel.save(nibabel.Nifti1Image(np.zeros((24, 20, 15), np.int16), np.diag([2.0, 2, 3, 1])), pairs[0].volume)
    score_pairs(pairs, 2, functools.partial(in_parallel, workers=2), "test", progress=False)
    assert "volume-1.nii.gz: the report of case 1 does not show this CT: " in caplog.text


def test_one_process_writes_to_a_folder(tmp_path):
    text = r"is writing to this folder \(process \d+"
    with writing_to(tmp_path), pytest.raises(ConfigError, match=text), writing_to(tmp_path):
        pass
    assert not (tmp_path / ".lock").exists()


def test_a_ct_of_another_shape_is_left_out(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    (pair,) = store_pairs(tmp_path, 1)
    nibabel.save(nibabel.Nifti1Image(np.zeros((24, 20, 15), np.int16), np.diag([2.0, 2, 3, 1])), pair.volume)
    scored = score_pair(pair)
    assert scored.score.overlaps["lesion"].dice == 1
    assert all(view.image is None for view in scored.overlays.views)
    assert "volume-1.nii.gz: the report of case 1 does not show this CT: " in caplog.text
    assert "(24, 20, 15)" in caplog.text


def test_an_unreadable_reference_is_an_error_even_with_a_ct(tmp_path):
    (pair,) = store_pairs(tmp_path, 1)
    image = nibabel.load(pair.reference)
    nibabel.save(nibabel.Nifti1Image(np.full(image.shape, 7, np.uint8), image.affine), tmp_path / "r.nii")
    with pytest.raises(DataError, match=r"r\.nii: has the label\(s\) 7, but"):
        score_pair(Pair("1", pair.prediction, tmp_path / "r.nii", pair.volume))


def touch(folder, *names):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()
    return folder


@pytest.mark.parametrize(
    ("references", "volumes", "volume_dir", "found"),
    [
        (["r/segmentation-7.nii.gz"], ["r/volume-7.nii"], None, "volume-7.nii"),
        (["r/test-segmentation-7.nii"], ["r/test-volume-7.nii.gz", "r/volume-7.nii"], None, "test-volume-7.nii.gz"),
        (["r/anna.nii"], ["ct/anna.nii"], None, None),
        (["labelsTr/liver_7.nii.gz"], ["imagesTr/liver_7.nii.gz"], None, "liver_7.nii.gz"),
        (["labelsTs/liver_7.nii.gz"], ["imagesTs/liver_7_0000.nii.gz"], None, "liver_7_0000.nii.gz"),
        (["r/anna.nii"], ["ct/anna.nii.gz"], "ct", "anna.nii.gz"),
        (["r/segmentation-7.nii"], ["ct/volume-7.nii.gz", "ct/segmentation-7.nii"], "ct", "volume-7.nii.gz"),
        (["r/liver_007.nii"], ["ct/scan_7_0000.nii.gz", "ct/scan_8_0000.nii.gz"], "ct", "scan_7_0000.nii.gz"),
    ],
)
def test_cts_are_found_by_folder_and_name(tmp_path, references, volumes, volume_dir, found):
    for path in (*references, *volumes):
        touch(tmp_path / path.split("/")[0], path.split("/")[1])
    reference_dir = tmp_path / references[0].split("/")[0]
    predictions = touch(tmp_path / "p", references[0].split("/")[1])
    pairs = [pair for pair in find_pairs(reference_dir, predictions) if pair.reference.name in references[0]]
    (pair,) = add_volumes(pairs, volume_dir and tmp_path / volume_dir)
    assert (pair.volume and pair.volume.name) == found


def test_a_folder_of_other_cts(tmp_path, caplog):
    references, predictions = (touch(tmp_path / name, "a-1.nii", "a-2.nii") for name in "rp")
    pairs = find_pairs(references, predictions)
    with pytest.raises(DataError, match=r"ct: this folder of CTs does not exist"):
        add_volumes(pairs, tmp_path / "ct")
    touch(tmp_path / "ct", "b-3.nii")
    with pytest.raises(DataError, match=r"ct: holds 1 NIfTI, .* or DICOM image\(s\), but no CT of a-1\.nii"):
        add_volumes(pairs, tmp_path / "ct")
    touch(tmp_path / "ct", "b-2.nii")
    assert [pair.volume and pair.volume.name for pair in add_volumes(pairs, tmp_path / "ct")] == [None, "b-2.nii"]
    assert "ct: no CT found for 1 reference(s): a-1.nii" in caplog.text


def test_an_empty_reference_is_scored_with_a_warning(tmp_path, caplog):
    (pair,) = store_pairs(tmp_path, 7)
    empty = tmp_path / "segmentation-07.nii.gz"
    mask = nibabel.load(pair.reference)
    nibabel.save(nibabel.Nifti1Image(np.zeros(mask.shape, np.uint8), mask.affine), empty)
    scored = score_pair(dataclasses.replace(pair, reference=empty))
    assert scored.score.overlaps["liver"].dice == 0
    assert f"{empty}: this mask has no voxel of liver or lesion" in caplog.text
    caplog.clear()
    score_pair(dataclasses.replace(pair, prediction=empty))  # an empty prediction is scored without a warning
    assert not caplog.records


@pytest.mark.parametrize("run", [in_thread, functools.partial(in_parallel, workers=1)])
def test_all_unusable_cases_are_reported_after_the_others_are_scored(tmp_path, run, monkeypatch):
    pairs, scored = store_pairs(tmp_path, 3, 4, 5, 11), []

    def score(pair, **options):
        if pair.key == "11":
            raise RecursionError("too deep")
        scored.append(pair.key)
        return score_pair(pair, **options)

    for number in (3, 4):
        (tmp_path / f"segmentation-{number}.nii.gz").write_bytes(b"x")
    monkeypatch.setattr("mtf_imaging.evaluation.pairs.score_pairs.score_pair", case_errors_of(score))
    with pytest.raises(DataError) as caught:
        score_pairs(pairs, 4, run, "score", progress=False)
    head, *lines = str(caught.value).splitlines()
    assert head == "3 of 4 cases cannot be used:"
    for line, number in zip(lines, (3, 4, 11), strict=True):
        assert line.startswith(f"  {tmp_path / f'segmentation-{number}.nii.gz'}: ")
    assert scored == ["3", "4", "5"]


def case_errors_of(score):
    def named(pair, **options):
        with case_errors(pair.reference):
            return score(pair, **options)

    return named


def test_a_case_too_large_for_memory_is_named(tmp_path, monkeypatch):
    def too_large(*_):
        raise MemoryError("Unable to allocate 9 GiB")

    (pair,) = store_pairs(tmp_path, 7)
    monkeypatch.setattr("mtf_imaging.evaluation.pairs.score_pairs.score_case", too_large)
    with pytest.raises(DataError, match=r"segmentation-7\.nii\.gz: not enough memory \(Unable to allocate 9 GiB\)"):
        score_pair(pair)
