"""Results name the checkpoint, the code and the files that they come from, and never other ones."""

import json
import os
import shutil

import pytest

import mtf_imaging as mi
from mtf_imaging.data.phantom import write_phantom
from mtf_imaging.files.provenance.digests import digest
from mtf_imaging.files.provenance.record import read_record
from mtf_imaging.jobs.runs.inference import result_settings
from mtf_imaging.models.resnet import Classification
from mtf_imaging.settings.as_text import identity
from mtf_imaging.settings.inference import PredictSettings
from mtf_imaging.training import prediction
from tests import tiny_runs
from tests.jobs.test_jobs import settings
from tests.tiny_runs import ARRAYS, VOLUMES, train_arrays


class Scaled(Classification):
    """A user's task, whose network depends on a function."""

    def __init__(self, network, scale):
        super().__init__(network)
        self.scale = scale

    def predict(self, image):
        return super().predict(self.scale(image))


def scale_by(factor):
    return lambda image: image * factor


@pytest.fixture
def folder(tmp_path_factory, tmp_path):
    return shutil.copytree(tiny_runs.arrays(tmp_path_factory), tmp_path / "copy")


def damage(run, name="ckpt-2"):
    path = run / f"{name}.data-00000-of-00001"
    path.write_bytes(path.read_bytes()[:100])


def predict(folder, task=ARRAYS, **options):
    shared = {"model_dir": folder / "run", "input": folder / "arrays", "output": folder / "out", "progress": False}
    return mi.jobs.predict(task=task, **shared | options)


def export(folder, **options):
    mi.jobs.export(task=ARRAYS, model_dir=folder / "run", output=folder / "model", progress=False, **options)


@pytest.mark.parametrize("job", [predict, export])
def test_a_damaged_checkpoint_stops_a_job(folder, job):
    damage(folder / "run")
    with pytest.raises(mi.CheckpointError) as error:
        job(folder)
    assert str(error.value).startswith(f"{folder}/run/ckpt-2: this checkpoint is damaged: ")
    assert f"Older ones: {folder}/run/ckpt-1. Fix: train on, which resumes from an older one; use the best" in (
        str(error.value)
    )
    assert error.value.settings == ("checkpoint", "model_dir")
    assert not (folder / "out/predictions.jsonl").exists()
    assert not (folder / "model").exists()
    damage(folder / "run/best")
    with pytest.raises(
        mi.CheckpointError, match=r"best/ckpt-2: this checkpoint is damaged.*with checkpoint = 'last'; or"
    ):
        job(folder, checkpoint="best")


def test_the_fixes_work(folder):
    damage(folder / "run")
    predict(folder, checkpoint="best")
    (origin,) = read_record(folder / "out").provenance
    assert (origin["runs"][0]["checkpoint"], origin["runs"][0]["selection"]) == ("ckpt-2", "best")
    for path in (folder / "run").glob("ckpt-2.*"):
        path.unlink()
    predict(folder, output=folder / "last")
    (origin,) = read_record(folder / "last").provenance
    assert (origin["runs"][0]["checkpoint"], origin["runs"][0]["step"]) == ("ckpt-1", 1)
    assert origin["runs"][0]["checkpoint_sha256"] == digest(folder / "run/ckpt-1.index")


@pytest.mark.slow
def test_training_falls_back_and_says_so(folder, caplog):
    """The only test of the fix that the messages name: training replaces the damaged checkpoint."""
    damage(folder / "run")
    train_arrays(folder / "run")
    assert "ckpt-2 is damaged; using the previous one" in caplog.text
    predict(folder)  # training has replaced the damaged checkpoint


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_checkpoint_that_is_saved_meanwhile(folder, monkeypatch, when):
    """Files name the restored checkpoint, also if the run saves another one while the network is built."""
    (folder / "later").mkdir()
    for path in (folder / "run").glob("ckpt-2.*"):
        path.rename(folder / "later" / path.name)
    load = prediction.load_weights

    def save():
        shutil.copytree(folder / "later", folder / "run", dirs_exist_ok=True)

    def load_meanwhile(*arguments):
        if when == "before":
            save()
        path = load(*arguments)
        save()
        return path

    monkeypatch.setattr(prediction, "load_weights", load_meanwhile)
    predict(folder)
    record, expected = read_record(folder / "out"), {"before": "ckpt-2", "after": "ckpt-1"}[when]
    (run,) = record.provenance[0]["runs"]
    assert (run["checkpoint"], run["checkpoint_sha256"]) == (expected, digest(folder / f"run/{expected}.index"))
    assert record.made_by["checkpoint"] == f"{expected} ({run['checkpoint_sha256'][:12]})"


def test_a_folder_is_not_completed_with_other_code(folder):
    network = ARRAYS.network
    predict(folder, Scaled(network, scale_by(0.123456789)))
    (folder / "out/image_10.npy").unlink()
    with pytest.raises(mi.DataError, match=r"task was \.\.\.content [0-9a-f]{16}, and is \.\.\.content [0-9a-f]{16}\."):
        predict(folder, Scaled(network, scale_by(0.1234567891)))
    predict(folder, Scaled(network, scale_by(0.123456789)))
    first, second = (origin["rules"]["task_sha256"] for origin in read_record(folder / "out").provenance * 2)
    assert first == second


def test_the_content_of_an_image_counts_and_not_its_time(folder):
    predict(folder)
    path = folder / "arrays/image_10.npy"
    stat, data = path.stat(), path.read_bytes()
    path.write_bytes(data)
    predict(folder)
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(mi.DataError, match=r"was predicted from another image than .*image_10\.npy, or this image was"):
        predict(folder)


@pytest.mark.slow
def test_scores_and_pooled_scores_name_the_restored_checkpoint(tmp_path, monkeypatch):
    """The only test with a real network in which `evaluate` restores a checkpoint that is not the newest."""
    write_phantom(tmp_path / "cases", 2, seed=1)
    mi.jobs.convert(input_dir=tmp_path / "cases", output_dir=tmp_path / "records", resolution=16, progress=False)
    run = tmp_path / "run"
    mi.jobs.train(**settings(checkpoint_every=1), data=tmp_path / "records", model_dir=run, num_steps=2)
    shared = {"task": VOLUMES, "model_dir": run, "dtype": "float64", "progress": False}
    shared |= {"input_dir": tmp_path / "cases", "output_dir": tmp_path / "evaluation"}
    shutil.copytree(run, tmp_path / "whole")
    damage(run)
    with pytest.raises(mi.CheckpointError, match="ckpt-2: this checkpoint is damaged"):
        mi.jobs.evaluate(**shared)
    for path in run.glob("ckpt-2.*"):
        path.unlink()
    load = prediction.load_weights

    def load_meanwhile(*arguments):
        path = load(*arguments)
        shutil.copytree(tmp_path / "whole", run, dirs_exist_ok=True)
        return path

    monkeypatch.setattr(prediction, "load_weights", load_meanwhile)
    mi.jobs.evaluate(**shared)
    (named,) = json.loads((tmp_path / "evaluation/metrics.json").read_text())["provenance"]["runs"]
    assert (named["checkpoint"], named["step"]) == ("ckpt-1", 1)
    assert named["checkpoint_sha256"] == digest(run / "ckpt-1.index")
    assert "ckpt-1 (last), step 1" in dict(mi.jobs.info(tmp_path / "evaluation")[0].rows)["checkpoint"]


def test_side_files_count_by_their_content(tmp_path):
    (tmp_path / "other").mkdir()
    files = [tmp_path / "codes.json", tmp_path / "other/codes.json", tmp_path / "changed.json"]
    for path, text in zip(files, ("{}", "{}", "{ }"), strict=True):
        path.write_text(text)
    shared = {"task": ARRAYS, "model_dir": "run", "input": "cases", "output": "out"}
    first, copied, changed = (
        identities(result_settings(PredictSettings(**shared, label_codes=path))) for path in map(str, files)
    )
    assert first == copied != changed


def identities(values):
    return {name: identity(value, name) for name, value in values.items()}
