"""The gin parameters of a job reach evaluate and predict; a simple function replaces the network."""

import gin
import nibabel
import numpy as np
import pytest

from mtf_imaging import jobs
from mtf_imaging.cli.config.training_settings import Job
from mtf_imaging.errors import ConfigError
from mtf_imaging.jobs.runs import ensembles
from mtf_imaging.kinds.volumes import images as volumes
from mtf_imaging.settings.setting import values_of
from mtf_imaging.settings.step import NetworkSettings


def network(image):
    return np.exp(-np.abs(image * 1024 - 512 - np.array([-400, 0, 400])) / 100)


@pytest.fixture
def labels():
    """A liver with a lesion, a smaller liver component, and a separate lesion."""
    labels = np.zeros((16, 16, 16), np.uint8)
    labels[2:8, 2:8, 2:8] = 1
    labels[4:6, 4:6, 4:6] = 2
    labels[12:15, 2:4, 2:4] = 1
    labels[12:15, 12:15, 12:15] = 2
    return labels


@pytest.fixture
def cases(tmp_path, labels, monkeypatch):
    monkeypatch.setattr(ensembles, "weights_folder", lambda *arguments: None)
    monkeypatch.setattr(volumes, "trained_network", lambda *arguments, **options: network)
    folder = tmp_path / "cases"
    folder.mkdir()
    for name, array in (("volume", np.int16(labels) * 400 - 400), ("segmentation", labels)):
        nibabel.save(nibabel.Nifti1Image(array, np.diag([2.0, 2, 2, 1])), folder / f"{name}-1.nii")
    return folder


@pytest.mark.parametrize(
    ("bound", "removed"),
    [
        ([], []),
        (["job.largest_liver = True"], [np.s_[10:, :, :]]),
        (["job.lesions_in_liver = True"], [np.s_[10:, 10:, 10:]]),
    ],
    ids=["as found", "largest_liver", "lesions_in_liver"],
)
def test_evaluate_and_predict_apply_the_same_cleanup(tmp_path, cases, labels, bound, removed):
    gin.parse_config(["job.task = None", *bound])
    for part in removed:
        labels[part] = 0
    bound = values_of(NetworkSettings, Job()) | {"cleanup": Job().cleanup, "resolution": "16"}
    model = tmp_path / "model"
    model.mkdir()
    (model / "ckpt-1.index").write_bytes(b"identifies the weights")
    jobs.evaluate(**bound, model_dir=model, input_dir=cases, output_dir=tmp_path / "scores")
    jobs.predict(**bound, model_dir=model, input=cases, output=tmp_path / "out")
    for folder in ("scores/predictions", "out"):
        written = nibabel.load(tmp_path / folder / "segmentation-1.nii.gz")
        np.testing.assert_array_equal(np.asarray(written.dataobj), labels)


def test_invalid_choices_are_reported_before_anything_is_read():
    gin.parse_config(["job.task = None", "job.lesions_in_liver = 'yes'"])
    with pytest.raises(ConfigError, match=r"^lesions_in_liver must be True or False, not 'yes'"):
        Job()
