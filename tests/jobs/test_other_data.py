"""Held-out data and the data of a resumed run mean the same as the training data; checked before the first step."""

import dataclasses
import json

import pytest

import mtf_imaging as mi
from mtf_imaging.data.description.description import Description
from mtf_imaging.errors import DataError
from mtf_imaging.jobs.data.checks import check_resumed_data
from mtf_imaging.jobs.runs.ensembles import ensemble_runs
from mtf_imaging.kinds.facts import Facts
from mtf_imaging.kinds.objects.data_set import Objects
from mtf_imaging.kinds.photos.data_set import Photos
from tests.jobs.photo_network import write_photos
from tests.jobs.test_described import ORGANS, SIZE, task, write_cases
from tests.kinds.coco_folder import make_annotation, make_fields, write_folder

SWAPPED = Description(("CT",), {"cyst": 1, "spleen": 2}, {"cyst": (1,), "spleen": (2,)}, lesions=("cyst",))
OTHERS = {
    "swapped": (SWAPPED, "the labels 1 cyst, 2 spleen, but {} 1 spleen, 2 cyst."),
    "fewer": (Description(("CT",), {"spleen": 1}, {"spleen": (1,)}), "the labels 1 spleen, but {} 1 spleen, 2 cyst."),
    "mr": (dataclasses.replace(ORGANS, channels=("MR",), intensities=()), "the channels MR, but {} CT."),
    "two": (dataclasses.replace(ORGANS, channels=("CT", "MR"), intensities=()), "the channels CT, MR, but {} CT."),
    "ignore": (dataclasses.replace(ORGANS, ignore=3), "the ignore label 3, but {} none."),
}


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Records of organs, and a folder of records for each other description."""
    folder = tmp_path_factory.mktemp("records")
    harmless = dataclasses.replace(ORGANS, lesions=(), intensities=())
    for name, description in {
        "own": ORGANS,
        "harmless": harmless,
        **{key: one for key, (one, _) in OTHERS.items()},
    }.items():
        write_cases(folder / f"raw_{name}", description, 1)
        options = {"resolution": SIZE, "workers": 1, "progress": False}
        mi.jobs.convert(input_dir=folder / f"raw_{name}", output_dir=folder / name, **options)
    return folder


def train(data, model_dir, **options):
    settings = {"task": task(), "num_steps": 1, "progress": False, "batch_size": 1}
    return mi.jobs.train(**settings | options, data=data, model_dir=model_dir)


@pytest.mark.parametrize("name", OTHERS)
def test_held_out_records_of_another_description(records, tmp_path, name):
    data = mi.jobs.TrainingData(records / "own", eval_dir=records / name)
    with pytest.raises(DataError) as info:
        train(data, tmp_path / "run")
    assert str(info.value).startswith(f"{records / name}: has {OTHERS[name][1].format('the network is trained with')}")
    assert info.value.settings == ("eval_dir",)
    assert not (tmp_path / "run/losses.csv").exists()  # before the first step


def test_held_out_records_with_harmless_differences(records):
    data = mi.jobs.TrainingData(records / "own", eval_dir=records / "harmless")
    evaluation = data.images.evaluation(data.data_dir, data.eval_dir, data.description, task(), False)
    assert callable(evaluation.open(data.eval_dir, (SIZE,) * 3))


@pytest.mark.parametrize("name", OTHERS)
def test_evaluate_refuses_another_description(records, tmp_path, name):
    run = _run_folder(tmp_path, mi.jobs.TrainingData(records / "own"))
    with pytest.raises(DataError, match="but the network was trained with") as info:
        mi.jobs.evaluate(
            task=task(), model_dir=run, input_dir=records / f"raw_{name}", output_dir=tmp_path / "out", progress=False
        )
    assert OTHERS[name][1].format("the network was trained with") in str(info.value)


@pytest.mark.parametrize("name", OTHERS)
def test_predict_compares_only_channels(records, tmp_path, name):
    run = _run_folder(tmp_path, mi.jobs.TrainingData(records / "own"))
    with pytest.raises(mi.MtfImagingError) as info:
        mi.jobs.predict(
            task=task(), model_dir=run, input=records / f"raw_{name}", output=tmp_path / "out", progress=False
        )
    is_other = name in ("mr", "two")
    assert ("dataset.json has the channels" in str(info.value)) == is_other
    assert is_other or isinstance(
        info.value, mi.CheckpointError
    )  # it went on to read the weights, which are empty here


@pytest.mark.parametrize("name", OTHERS)
def test_a_run_resumes_only_with_its_own_description(records, tmp_path, name):
    own = mi.jobs.TrainingData(records / "own")
    run = _run_folder(tmp_path, own)
    check_resumed_data(own, run)
    check_resumed_data(mi.jobs.TrainingData(records / "harmless"), run)
    with pytest.raises(DataError) as info:
        train(mi.jobs.TrainingData(records / name), run)
    expected = OTHERS[name][1].format(f"the run in {run} began with")
    assert str(info.value).startswith(f"{records / name}: has {expected} Fix: resume with the data of the run")
    assert info.value.settings == ("data_dir", "model_dir")


def test_a_folder_without_a_checkpoint_begins_with_any_data(records, tmp_path):
    run = _run_folder(tmp_path, mi.jobs.TrainingData(records / "own"))
    (run / "ckpt-1.index").unlink()
    (run / "checkpoint").unlink()
    check_resumed_data(mi.jobs.TrainingData(records / "swapped"), run)


def test_a_run_does_not_resume_with_data_of_another_kind(records, tmp_path):
    run = _run_folder(tmp_path, mi.jobs.TrainingData(records / "own"))
    write_photos(tmp_path / "photos")
    with pytest.raises(DataError, match=r"holds photos, but the run in .* began with volumes. Fix: resume with"):
        check_resumed_data(mi.jobs.TrainingData(tmp_path / "photos", Photos(size=(16, 24))), run)


def test_an_ensemble_averages_only_runs_of_one_description(records, tmp_path):
    for number, name in enumerate(("own", "swapped")):
        _run_folder(tmp_path, mi.jobs.TrainingData(records / name), f"fold_{number}")
    with pytest.raises(DataError, match=r"fold_1: was trained with the labels 1 cyst, 2 spleen, but .*fold_0 with 1 s"):
        ensemble_runs(tmp_path, "last")


PHOTOS = Photos(size=(16, 24), split=None, held_out_split=None)
CHANGED_CLASSES = {
    "swapped": ({"classes": ["box", "ground", "sky"]}, "the classes box, ground, sky, but {} ground, box, sky."),
    "fewer": (
        {"classes": ["ground", "box"], "values": [[0, 0], [1, 1]]},
        "the classes ground, box, but {} ground, box",
    ),
    "ignore": ({"ignore_label": 254}, "the ignore_label 254, but {} 255."),
    "colors": ({"colors": [[1, 2, 3]] * 3}, None),
    "values": ({"values": [[0, 0], [1, 1], [2, 2]]}, None),
}


@pytest.mark.parametrize("name", CHANGED_CLASSES)
def test_photos_of_other_classes(tmp_path, name):
    changes, expected = CHANGED_CLASSES[name]
    for folder in ("own", "other"):
        write_photos(tmp_path / folder, 2, lists=False)
    fields = {"classes": ["ground", "box", "sky"]}
    (tmp_path / "own/classes.json").write_text(json.dumps(fields))
    (tmp_path / "other/classes.json").write_text(json.dumps(fields | changes))
    own = mi.jobs.TrainingData(tmp_path / "own", PHOTOS, eval_dir=tmp_path / "other")
    other = mi.jobs.TrainingData(tmp_path / "other", PHOTOS)
    run = _run_folder(tmp_path, own)
    evaluation = lambda: own.images.evaluation(own.data_dir, own.eval_dir, own.description, task(), False)  # noqa: E731
    if expected is None:
        assert evaluation().measures == ("mean_iou", "pixel_accuracy")
        check_resumed_data(other, run)
        return
    for call, begun in ((evaluation, "the network was trained with"), (lambda: check_resumed_data(other, run), None)):
        with pytest.raises(DataError) as info:
            call()
        text = expected.format(begun or f"the run in {run} began with")
        assert str(info.value).startswith(f"{tmp_path / 'other'}: has {text}")


OBJECTS = Objects(size=(32, 32))


@pytest.mark.parametrize(
    ("categories", "held_out", "resumed"),
    [
        (((1, "fork"), (3, "cup")), "2 of its categories are not those of the run, such as 1 'fork'", "1 fork, 3 cup"),
        (((1, "cup"), (3, "fork"), (4, "jar")), "1 of its categories are not", "1 cup, 3 fork, 4 jar"),
        (((1, "cup"),), None, "1 cup"),  # the others have no objects in these images; a warning names them
    ],
)
def test_objects_of_other_categories(tmp_path, categories, held_out, resumed):
    annotations = [make_annotation(1, 11, 1, (2, 3, 10, 8))]
    for folder, split, names in (("own", "train", ((1, "cup"), (3, "fork"))), ("other", "val", categories)):
        write_folder(tmp_path / folder, make_fields([(32, 32)], annotations, names), split)
    own = mi.jobs.TrainingData(tmp_path / "own", OBJECTS, eval_dir=tmp_path / "other")
    evaluation = lambda: own.images.evaluation(own.data_dir, own.eval_dir, own.description, task(), False)  # noqa: E731
    if held_out:
        with pytest.raises(DataError, match=held_out):
            evaluation()
    else:
        assert evaluation().measures == ("box_ap", "box_ap50")
    run = _run_folder(tmp_path, own)
    other = mi.jobs.TrainingData(tmp_path / "other", Objects(size=(32, 32), split="val"))
    with pytest.raises(
        DataError, match=f"has the categories {resumed}, but the run in .* began with 1 cup, 3 fork. Fix"
    ):
        check_resumed_data(other, run)


def _run_folder(folder, data, name="run"):
    """Writes the facts of a run and the names of a checkpoint without weights."""
    run = _folder(folder / name)
    sizes = data.sizes(None)
    facts: Facts = data.images.facts(data.data_dir, sizes, data.description)
    facts.save(run)
    (run / "checkpoint").write_text('model_checkpoint_path: "ckpt-1"\n')
    (run / "ckpt-1.index").write_bytes(b"")
    (run / "ckpt-1.data-00000-of-00001").write_bytes(b"")
    return run


def _folder(path):
    path.mkdir()
    return path
