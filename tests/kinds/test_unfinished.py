"""A killed prediction of a large volume continues where it stopped, with the same labels."""

import nibabel
import numpy as np
import pytest

from mtf_imaging.files import blocks
from mtf_imaging.files.partial import kept_path
from mtf_imaging.files.unfinished import Unfinished
from tests import forked
from tests.kinds.killed_prediction import segment


@pytest.fixture
def volume(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "IN_MEMORY", 0)
    hu = np.random.default_rng(0).integers(-200, 300, (31, 12, 11)).astype(np.int16)
    path = tmp_path / "volume-0.nii.gz"
    nibabel.save(nibabel.Nifti1Image(hu, np.diag([1.1, -1.2, 1.5, 1])), path)
    return path


def labels(path):
    return np.asarray(nibabel.load(path).dataobj)


def test_a_killed_prediction_continues_with_the_same_labels(volume, tmp_path):
    whole, output = tmp_path / "whole.nii.gz", tmp_path / "output.nii.gz"
    count = segment(volume, whole)
    kept = kept_path(output)
    assert [*tmp_path.glob(".*")] == []
    rng = np.random.default_rng(0)
    for kill_at in (rng.integers(count // 2, 2 * count // 3), *rng.integers(0, count // 4, 2)):
        forked.run("tests.kinds.killed_prediction", volume, output, kill_at, code=-9)
    done = (kept / "parts").read_bytes()
    assert not output.exists()
    for size in (len(done), *rng.integers(0, len(done), 6)):  # a process is killed while it writes
        kept.mkdir(exist_ok=True)
        (kept / "parts").write_bytes(done[:size])
        rest = segment(volume, output)
        assert rest < count if size == len(done) else rest <= count
        np.testing.assert_array_equal(labels(output), labels(whole))
        assert not kept.exists()


def test_a_prediction_that_was_killed_before_it_was_written_is_written(volume, tmp_path, monkeypatch):
    output = tmp_path / "output.nii.gz"
    monkeypatch.setattr(Unfinished, "remove", Unfinished.close)
    count = segment(volume, output)
    written = labels(output)
    output.unlink()
    assert segment(volume, output) < count / 2
    np.testing.assert_array_equal(labels(output), written)
    assert np.unique(written).tolist() == [0, 1, 2]


def test_other_results_begin_again(tmp_path):
    for made_by, there in (("a", []), ("a", [0, 1]), ("b", []), ("a", [])):
        unfinished = Unfinished(tmp_path / "result", lambda made_by=made_by: made_by)
        assert [int(part) for part in unfinished.parts()] == there
        for number in range(2):
            unfinished.add(np.int64(number))
        unfinished.close()
