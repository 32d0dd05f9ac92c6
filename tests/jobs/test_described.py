"""The jobs on data of any description: several channels, regions, the ignore label, and a CT with other labels."""

import json

import nibabel
import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.data.cases.cases import find_cases
from mtf_imaging.data.description.dataset_json import read_description, write_description
from mtf_imaging.data.description.description import Description
from mtf_imaging.data.phantom import write_phantom
from mtf_imaging.data.records.data_set import Records
from mtf_imaging.data.sampling.sampling import Sampling
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.kinds.all_kinds import read_facts
from mtf_imaging.kinds.volumes.trained import description_of_run
from mtf_imaging.models.unet3d import LiverTumorSegmentation, Segmentation, UNet3D
from mtf_imaging.training.data_set import data_batches
from tests.evaluation.descriptions import REGIONS
from tests.kinds.volumes import network_input, read_case

SIZE = 8
ORGANS = Description(
    channels=("CT",), labels={"spleen": 1, "cyst": 2}, masks={"spleen": (1,), "cyst": (2,)}, lesions=("cyst",)
)


def write_cases(folder, description, number=3):
    """Writes cases of 8 voxels a side, in which every label has a box, with the values of the image depending on it."""
    for part in ("imagesTr", "labelsTr"):
        (folder / part).mkdir(parents=True)
    write_description(folder, description, number)
    values = [*description.labels.values(), *([description.ignore] if description.ignore else [])]
    for case in range(number):
        rng = np.random.default_rng(case)
        labels = np.zeros([SIZE] * 3, np.uint8)
        for i, value in enumerate(values):
            labels[1 + 2 * i : 3 + 2 * i, 1 + case : 6, 2:6] = value
        for channel in range(len(description.channels)):
            image = np.rint(40 * labels * (channel + 1) + rng.normal(0, 5, labels.shape)).astype(np.int16)
            path = folder / "imagesTr" / f"case_{case}_{channel:04}.nii.gz"
            nibabel.save(nibabel.Nifti1Image(image, np.diag([2, 2, 2, 1])), path)
        nibabel.save(nibabel.Nifti1Image(labels, np.diag([2, 2, 2, 1])), folder / "labelsTr" / f"case_{case}.nii.gz")
    return folder


def task(**settings):
    return Segmentation(UNet3D(base_filters=2, depth=1, convs=1, dropout_rate=0), **settings)


def trained(folder, description, is_scored=False, **settings):
    """Writes and converts cases, and trains on them; the run is in `folder / "run"`."""
    write_cases(folder / "raw", description)
    mi.jobs.convert(input_dir=folder / "raw", output_dir=folder / "records", resolution=SIZE, workers=1, progress=False)
    settings = {"num_steps": 2, "progress": False, "dtype": "float64"} | settings
    data = mi.jobs.TrainingData(folder / "records", eval_dir=folder / "records" if is_scored else None)
    mi.jobs.train(task=task(), data=data, model_dir=folder / "run", **settings)
    return folder


@pytest.fixture(scope="module")
def regions(tmp_path_factory):
    """A run on two channels with regions and an ignore label."""
    return trained(tmp_path_factory.mktemp("regions"), REGIONS, True, layout=mi.Layout.parse("rows:2", "x:rows"))


@pytest.fixture(scope="module")
def organs(tmp_path_factory):
    """A run on a CT with other labels than those of LiTS."""
    return trained(tmp_path_factory.mktemp("organs"), ORGANS)


@pytest.mark.slow
def test_a_run_stores_its_description(regions):
    assert description_of_run(regions / "run") == read_description(regions / "raw") == REGIONS
    header = (regions / "run" / "losses.csv").read_text().splitlines()[0]
    assert header.split(",")[-4:] == [*REGIONS.masks, "cases"]


@pytest.mark.slow
def test_the_best_checkpoint_has_the_best_mean(regions):
    scores = (regions / "run/eval/scores.csv").read_text().splitlines()
    assert scores[0].split(",")[-4:] == [*REGIONS.masks, "mean"]
    for line in scores[1:]:
        *dice, mean = map(float, line.split(",")[-4:])
        assert mean == pytest.approx(sum(dice) / 3)
    assert (regions / "run/best").is_dir()


@pytest.mark.slow
@pytest.mark.parametrize("data", ["regions", "organs"])
def test_evaluation_and_prediction_agree(data, request, tmp_path):
    folder = request.getfixturevalue(data)
    description = description_of_run(folder / "run")
    arguments = {"task": task(), "model_dir": folder / "run", "dtype": "float64", "progress": False}
    scores = mi.jobs.evaluate(**arguments, input_dir=folder / "raw", output_dir=tmp_path / "scores")
    assert [score.key for score in scores] == ["case_0", "case_1", "case_2"]
    metrics = json.loads((tmp_path / "scores/metrics.json").read_text())
    assert {*description.masks} <= {*metrics}
    assert {*description.masks} <= {*metrics["cases"]["case_1"]}
    written = mi.jobs.predict(**arguments, input=folder / "raw", output=tmp_path / "predictions")
    split = mi.jobs.predict(
        **arguments, input=folder / "raw", output=tmp_path / "split", layout=mi.Layout.parse("a:3,b:2", "x:a,z:b")
    )
    for path, other in zip(written, split, strict=True):
        labels = np.asarray(nibabel.load(path).dataobj)
        assert labels.shape == (SIZE, SIZE, SIZE)
        np.testing.assert_array_equal(labels, nibabel.load(other).dataobj)
        np.testing.assert_array_equal(labels, nibabel.load(tmp_path / "scores/predictions" / path.name).dataobj)


@pytest.mark.slow
@pytest.mark.parametrize("data", ["regions", "organs"])
def test_prediction_sees_the_image_of_the_training(data, request):
    folder = request.getfixturevalue(data)
    description = description_of_run(folder / "run")
    records, inputs = Records(), task().for_data(description).inputs(1, (SIZE,) * 3)
    batches = data_batches(records, folder / "records", inputs, batch_size=1, sizes=(SIZE,) * 3, seed=0, start_step=0)
    cases = {case.key: case for case in find_cases(folder / "raw")}
    for _ in range(3):
        batch = next(batches)
        image = read_case(cases[batch["cases"][0]], description=description)
        found = network_input(image, Sampling((SIZE,) * 3), description=description)
        np.testing.assert_allclose(found, batch["image"][0], rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_changed_intensities_are_used_in_prediction(regions, tmp_path):
    data = mi.jobs.TrainingData(regions / "records", data_set=Records(intensities={"FLAIR": "percentiles"}))
    mi.jobs.train(task=task(), data=data, model_dir=tmp_path / "run", num_steps=1, progress=False)
    assert [*map(str, description_of_run(tmp_path / "run").intensities)] == ["percentiles", "z-score"]


def test_one_file_of_several_channels_is_predicted(regions, tmp_path):
    arguments = {"task": task(), "model_dir": regions / "run", "dtype": "float64", "progress": False}
    (path,) = mi.jobs.predict(
        **arguments, input=regions / "raw/imagesTr/case_1_0000.nii.gz", output=tmp_path / "one.nii.gz"
    )
    mi.jobs.predict(**arguments, input=regions / "raw", output=tmp_path / "all")
    np.testing.assert_array_equal(nibabel.load(path).dataobj, nibabel.load(tmp_path / "all/case_1.nii.gz").dataobj)


def test_the_liver_task_is_refused(regions, tmp_path):
    with pytest.raises(ConfigError, match=r"^LiverTumorSegmentation needs .*Fix: use unet3d\.Segmentation"):
        mi.jobs.train(
            task=LiverTumorSegmentation(), data=regions / "records", model_dir=tmp_path / "run", progress=False
        )
    assert not (tmp_path / "run").exists() or not [*(tmp_path / "run").glob("ckpt*")]


def test_data_with_other_channels_are_refused(regions, organs, tmp_path):
    with pytest.raises(DataError) as error:
        mi.jobs.evaluate(
            task=task(), model_dir=regions / "run", input_dir=organs / "raw", output_dir=tmp_path, progress=False
        )
    text = str(error.value)
    assert text.startswith(
        f"{organs / 'raw'}: dataset.json has the channels CT, but the network was trained with FLAIR, T1w; the labels "
    )
    assert text.endswith(". Fix: give data like the training data.")


def test_scores_need_the_same_labels(organs, tmp_path):
    other = Description(("CT",), {"kidney": 1}, {"kidney": (1,)})
    write_cases(tmp_path / "raw", other)
    arguments = {"task": task(), "model_dir": organs / "run", "dtype": "float64", "progress": False}
    with pytest.raises(DataError, match=r"has the labels 1 kidney, but the network was trained with 1 spleen, 2 cyst"):
        mi.jobs.evaluate(**arguments, input_dir=tmp_path / "raw", output_dir=tmp_path / "scores")
    assert len(mi.jobs.predict(**arguments, input=tmp_path / "raw", output=tmp_path / "predictions")) == 3


@pytest.mark.slow
def test_runs_on_lits_store_no_description(tmp_path):
    write_phantom(tmp_path / "cases", 2, seed=1)
    mi.jobs.convert(
        input_dir=tmp_path / "cases", output_dir=tmp_path / "records", resolution=SIZE, workers=1, progress=False
    )
    mi.jobs.train(task=task(), data=tmp_path / "records", model_dir=tmp_path / "run", num_steps=1, progress=False)
    facts = json.loads((tmp_path / "run/run.json").read_text())
    assert facts.keys() == {"resolution", "spacing", "fold_digest", "class_frequencies", "provenance"}
    assert read_facts(tmp_path / "run").description is None
