"""The jobs on photos: training, evaluation and prediction, under any layout, with a tiny network."""

import dataclasses
import functools
import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

import mtf_imaging as mi
from mtf_imaging.jobs.held_out.cases import open_held_out
from mtf_imaging.jobs.runs.inference import open_images
from mtf_imaging.kinds.all_kinds import read_facts
from mtf_imaging.kinds.photos.data_set import PhotoAugmentation, Photos
from mtf_imaging.kinds.photos.reading.label_images import read_label_image
from mtf_imaging.kinds.predicted import Planned
from mtf_imaging.models.deeplab import SemanticSegmentation
from mtf_imaging.models.unet3d import Segmentation, UNet3D
from mtf_imaging.settings.inference import PredictSettings
from mtf_imaging.training.optimizers import Adam
from tests.jobs.photo_network import CLASSES, TwoConvs, write_photos
from tests.scores import read_losses, read_rows, read_scores

SPLIT = mi.Layout.parse("rows:2,cols:3", "height:rows,width:cols")
STEPS = 4
DATA = Photos(size=(16, 24), augmentation=PhotoAugmentation())
COMMON = {"task": SemanticSegmentation(TwoConvs()), "dtype": "float64", "progress": False}


def train(folder, model_dir, num_steps=STEPS, data_set=DATA, **options):
    data = mi.jobs.TrainingData(folder / "photos", data_set, eval_dir=folder / "photos")
    settings = {"optimizer": Adam(0.01), "batch_size": 2, "checkpoint_every": 2}
    return mi.jobs.train(**COMMON | settings | options, data=data, model_dir=model_dir, num_steps=num_steps)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Six photos of three sizes, two of them larger than the crops, and a run."""
    folder = tmp_path_factory.mktemp("photos")
    write_photos(folder / "photos")
    train(folder, folder / "run")
    mi.jobs.evaluate(
        **COMMON, model_dir=folder / "run", input_dir=folder / "photos", output_dir=folder / "scores", num_pictures=1
    )
    return folder


@pytest.fixture
def evaluate(folder, tmp_path):
    shared = {**COMMON, "model_dir": folder / "run", "input_dir": folder / "photos"}
    return lambda **options: mi.jobs.evaluate(**shared | {"output_dir": tmp_path / "scores"} | options)


@pytest.fixture
def predict(folder, tmp_path):
    shared = {**COMMON, "model_dir": folder / "run", "input": folder / "photos"}
    return lambda **options: mi.jobs.predict(**shared | {"output": tmp_path / "out"} | options)


def labels(path):
    return read_label_image(path, CLASSES)


def picture(path):
    """Returns the pixels of a photo, which are stored values if it is a label image."""
    with Image.open(path) as opened:
        return np.asarray(opened)


@pytest.mark.slow
def test_a_run_stores_the_crop_the_classes_and_the_held_out_list(folder):
    facts = read_facts(folder / "run")
    assert (facts.resolution, facts.held_out_split) == ("height:16,width:24", "val")
    assert facts.description == json.loads(json.dumps(CLASSES.to_fields()))
    assert json.loads((folder / "run/run.json").read_text()).keys() == {
        *("resolution", "spacing", "fold_digest", "photos", "held_out_split", "class_frequencies", "provenance")
    }


@pytest.mark.slow
def test_held_out_photos_are_scored_at_their_own_sizes(folder):
    scores = read_rows(folder / "run/eval/scores.csv")
    assert [*scores[0]] == ["step", "loss", "mean_iou", "pixel_accuracy"]
    assert [int(row["step"]) for row in scores] == [2, 4]
    metrics = json.loads((folder / "scores/metrics.json").read_text())
    for name in ("mean_iou", "pixel_accuracy"):
        assert metrics[name] == pytest.approx(float(scores[-1][name]), rel=1e-12)
    best = max(scores, key=lambda row: float(row["mean_iou"]))
    assert [path.name for path in (folder / "run/best").glob("*.index")] == [f"ckpt-{best['step']}.index"]


@pytest.mark.slow
def test_held_out_photos_are_those_of_a_list_or_of_a_folder_without_lists(folder, tmp_path, caplog):
    step = SimpleNamespace(task=COMMON["task"], sizes=(16, 24), batch_size=2)
    warning = "eval_dir is the same folder as data_dir"
    for split, text in (("val", ""), ("train", warning)):
        data_set = dataclasses.replace(DATA, held_out_split=split)
        data = mi.jobs.TrainingData(folder / "photos", data_set, eval_dir=folder / "photos")
        held_out = open_held_out(data, step, "mean_iou")
        assert (held_out.sizes, held_out.any_size) == ((16, 24), True)
        assert text in caplog.text if text else not caplog.text
    caplog.clear()
    other = write_photos(tmp_path / "photos", number=3, lists=False)
    data = mi.jobs.TrainingData(folder / "photos", DATA, eval_dir=other)
    batches = open_held_out(data, step, "mean_iou").batches()
    assert [key for batch in batches for key in batch["cases"]][:3] == ["photo_0", "photo_1", "photo_2"]
    assert not caplog.text


def test_evaluation_writes_every_photo_of_the_list(folder):
    written = sorted(str(path.relative_to(folder / "scores")) for path in (folder / "scores").rglob("*.*"))
    assert written == [
        *("metrics.csv", "metrics.json", "pictures/photo_4.png", "predictions/photo_4.png", "predictions/photo_5.png"),
        "report.html",
    ]
    for key, size in (("photo_4", (17, 23)), ("photo_5", (12, 40))):
        with Image.open(folder / f"scores/predictions/{key}.png") as prediction:
            assert (prediction.mode, prediction.size[::-1]) == ("P", size)


@pytest.mark.slow
def test_training_under_a_layout_equals_training_on_one_processor(folder, tmp_path):
    train(folder, tmp_path / "split", layout=SPLIT)
    found, expected = read_losses(tmp_path / "split"), read_losses(folder / "run")
    assert len(expected) == STEPS
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    scores = [read_rows(run / "eval/scores.csv") for run in (tmp_path / "split", folder / "run")]
    assert [row["mean_iou"] for row in scores[0]] == [row["mean_iou"] for row in scores[1]]


@pytest.mark.slow
def test_micro_batches_read_the_same_crops(folder, tmp_path):
    train(folder, tmp_path / "run", micro_batches=2)
    assert [row["cases"] for row in read_rows(tmp_path / "run/losses.csv")] == [
        row["cases"] for row in read_rows(folder / "run/losses.csv")
    ]
    # The mean over the pixels of each micro-batch differs from that over all pixels that count.
    assert read_losses(tmp_path / "run")[0] == pytest.approx(read_losses(folder / "run")[0], rel=0.2)


@pytest.mark.slow
def test_a_resumed_run_equals_an_uninterrupted_one(folder, tmp_path):
    train(folder, tmp_path / "run", num_steps=2)
    train(folder, tmp_path / "run")
    for name in ("losses.csv", "eval/scores.csv"):
        assert (tmp_path / "run" / name).read_text() == (folder / "run" / name).read_text()


@pytest.mark.slow
def test_prediction_agrees_with_evaluation_under_any_layout(folder, predict, tmp_path):
    one, split = predict(), predict(output=tmp_path / "split", layout=SPLIT)
    assert [path.name for path in one] == [f"photo_{n}.png" for n in range(6)]
    for path, other in zip(one, split, strict=True):
        assert path.read_bytes() == other.read_bytes()
        photo = picture(folder / "photos/images" / path.name)
        assert labels(path).shape == photo.shape[:2]
        assert picture(tmp_path / "out/overlays" / path.name).shape == photo.shape
    for name in ("photo_4.png", "photo_5.png"):
        assert (tmp_path / "out" / name).read_bytes() == (folder / "scores/predictions" / name).read_bytes()
    assert len({labels(path).tobytes() for path in one}) == 6


def test_one_photo_without_labels_is_predicted(folder, predict, tmp_path):
    photo = tmp_path / "holiday.jpg"
    pixels = Image.fromarray(picture(folder / "photos/images/photo_1.png"))
    pixels.save(photo, quality=95)
    (path,) = predict(input=photo, output=tmp_path / "one.png")
    assert labels(path).shape == (17, 23)
    assert picture(tmp_path / "one_overlay.png").shape == (17, 23, 3)
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned by 90 degrees
    pixels.save(tmp_path / "turned.jpg", exif=exif, quality=95)
    (path,) = predict(input=tmp_path / "turned.jpg", output=tmp_path / "turned.png")
    assert labels(path).shape == (23, 17)


def test_predictions_of_two_networks_are_not_mixed(folder, predict, tmp_path):
    predict()
    train(folder, tmp_path / "other", num_steps=1, seed=5)
    text = r"by another network or with other settings: checkpoint was ckpt-4 \(\w+\), and is ckpt-1 \(\w+\)\. Fix: "
    with pytest.raises(mi.DataError, match=text):
        predict(model_dir=tmp_path / "other")
    with pytest.raises(mi.DataError, match=r"with other settings: flips was \(\), and is \('width'\)\. Fix"):
        predict(flips=("width",))
    assert len(predict(model_dir=tmp_path / "other", overwrite=True)) == 6
    with pytest.raises(mi.DataError, match="other settings: checkpoint was ckpt-1"):
        predict()


def test_files_of_the_user_among_the_predictions_are_kept(folder, predict, tmp_path):
    first, *_ = predict()
    corrected = write_photos(tmp_path / "mine", 1, lists=False) / "labels/photo_0.png"
    first.write_bytes(corrected.read_bytes())
    with pytest.raises(
        mi.DataError, match=r"photo_0\.png: was changed since predict wrote it\. Fix: name another output"
    ):
        predict()
    assert first.read_bytes() == corrected.read_bytes()
    first.unlink()
    predict()
    more = tmp_path / "more"
    more.mkdir()
    for name in ("photo_0.png", "photo_9.png"):
        (more / name).write_bytes((folder / "photos/images/photo_1.png").read_bytes())
    with pytest.raises(
        mi.DataError, match=r"photo_0\.png: was predicted from another image than .*more/photo_0\.png, or"
    ):
        predict(input=more)
    (more / "photo_0.png").unlink()
    (tmp_path / "out/overlays/photo_9.png").write_bytes(b"mine")
    with pytest.raises(
        mi.DataError, match=r"overlays/photo_9\.png: already exists, and predict did not write it\. Fix"
    ):
        predict(input=more)
    assert (tmp_path / "out/overlays/photo_9.png").read_bytes() == b"mine"


def test_photos_with_long_names_are_segmented(folder, predict, tmp_path):
    (tmp_path / "cases").mkdir()
    for name in ("a" * 248 + ".jpg", "b" * 251 + ".png", "c.jpg"):
        (tmp_path / "cases" / name).write_bytes((folder / "photos/images/photo_0.png").read_bytes())
    written = predict(input=tmp_path / "cases")
    assert [path.name for path in written] == ["a" * 248 + ".png", "b" * 251 + ".png", "c.png"]
    assert all(path.is_file() for path in written)


@pytest.mark.slow
def test_flips_and_scales_are_averaged(folder, predict, tmp_path):
    """Mirrored photos give mirrored predictions with flips of the width, whatever the network."""
    mirrored = tmp_path / "mirrored"
    mirrored.mkdir()
    for path in (folder / "photos/images").iterdir():
        Image.fromarray(picture(path)[:, ::-1]).save(mirrored / path.name)
    # Photos are padded on the right, so only photos of the size of a program have mirrored borders.
    options = {"flips": ("width",), "resolution": "height:20,width:30"}
    one, other = predict(**options, output=tmp_path / "a"), predict(**options, input=mirrored, output=tmp_path / "b")
    assert labels(one[0]).shape == (20, 30)
    np.testing.assert_array_equal(labels(one[0])[:, ::-1], labels(other[0]))
    plain = predict(resolution="height:20,width:30", output=tmp_path / "c")
    scaled = predict(scales=(0.5, 1.0, 2.0), output=tmp_path / "d")
    assert any((labels(a) != labels(b)).any() for a, b in zip(one, plain, strict=True))
    assert any((labels(a) != labels(b)).any() for a, b in zip(scaled, plain, strict=True))


@pytest.mark.slow
def test_an_ensemble_averages_its_runs(folder, predict, tmp_path):
    for number in range(2):
        train(folder, tmp_path / f"cv/fold_{number}", seed=number, num_steps=2)
    written = predict(model_dir=tmp_path / "cv", ensemble=True)
    batched = predict(model_dir=tmp_path / "cv", ensemble=True, eval_batch_size=2, output=tmp_path / "batched")
    assert [path.read_bytes() for path in batched] == [path.read_bytes() for path in written]
    alone = [predict(model_dir=tmp_path / f"cv/fold_{n}", output=tmp_path / str(n)) for n in range(2)]
    assert all(any((labels(a) != labels(b)).any() for a, b in zip(written, other, strict=True)) for other in alone)
    facts = read_facts(tmp_path / "cv/fold_1")
    dataclasses.replace(facts, description=facts.description | {"scaling": "mean"}).save(tmp_path / "cv/fold_1")
    with pytest.raises(
        mi.ConfigError, match="fold_1: was trained on photos with other classes or another scaling than"
    ):
        predict(model_dir=tmp_path / "cv", ensemble=True, output=tmp_path / "other")


def test_label_images_with_other_values_are_scored_alike(folder, evaluate, tmp_path):
    other = write_photos(tmp_path / "photos")
    fields = json.loads((other / "classes.json").read_text()) | {"values": [[7, 0], [8, 1], [11, 2]]}
    (other / "classes.json").write_text(json.dumps(fields))
    for path in (other / "labels").iterdir():
        stored = np.array([7, 8, 11, *[0] * 253], np.uint8)[np.minimum(labels(path), 3)]
        Image.fromarray(stored).save(path)
    evaluate(input_dir=other)
    assert read_scores(tmp_path / "scores") == read_scores(folder / "scores")
    assert {*np.unique(picture(tmp_path / "scores/predictions/photo_4.png"))} <= {7, 8, 11}


@pytest.mark.slow
def test_a_folder_without_lists_is_evaluated_as_a_whole(evaluate, tmp_path):
    scores = evaluate(input_dir=write_photos(tmp_path / "photos", number=3, lists=False))
    assert [score.key for score in scores] == ["photo_0", "photo_1", "photo_2"]
    scores = evaluate(split="train", output_dir=tmp_path / "train")
    assert [score.key for score in scores] == [f"photo_{n}" for n in range(4)]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"flips": ("x",)}, "flips = ('x',): not axes of the images. Fix: list each of height, width at most once"),
        (
            {"scales": (0,)},
            "scales must be a tuple in which each element is a number above 0 and at most 100",
        ),
        (
            {"spacing": "1,1,1"},
            "spacing = '1,1,1' has no effect on photos: it is a setting of volumes. Fix: leave it out",
        ),
        ({"split": "vla"}, "has no split 'vla'. Did you mean 'val'? Fix: choose one of train, val."),
        ({"resolution": "x:8,y:8"}, "resolution 'x:8,y:8': needs a positive size for height and width."),
    ],
)
def test_invalid_settings_are_reported(evaluate, tmp_path, options, text):
    with pytest.raises(mi.MtfImagingError, match=re.escape(text)):
        evaluate(**options)
    assert not (tmp_path / "scores").exists()


def test_photos_of_other_classes_are_refused(folder, evaluate, tmp_path):
    other = write_photos(tmp_path / "photos")
    text = (other / "classes.json").read_text().replace("sky", "cloud")
    (other / "classes.json").write_text(text)
    message = r"has the classes ground, box, cloud, but the network was trained with ground, box, sky\. Fix: give data"
    with pytest.raises(mi.DataError, match=message):
        evaluate(input_dir=other)
    data = mi.jobs.TrainingData(folder / "photos", DATA, eval_dir=other)
    with pytest.raises(mi.DataError, match=message):
        mi.jobs.train(**COMMON, data=data, model_dir=tmp_path / "run", num_steps=1)


def test_photos_without_labels_are_refused(folder, evaluate, tmp_path):
    other = write_photos(tmp_path / "photos")
    (other / "labels/photo_4.png").unlink()
    with pytest.raises(mi.DataError, match=r"1 of 2 photos have no label image in labels: photo_4\. Fix: add"):
        evaluate(input_dir=other)
    with pytest.raises(mi.DataError, match=r"contains photos without label images\. Fix: give a folder that contains"):
        evaluate(input_dir=folder / "photos/images")


def test_results_of_other_photos_are_kept(folder, evaluate):
    with pytest.raises(
        mi.DataError, match=r"holds 2 prediction\(s\) for photos that are not evaluated, .* such as photo_4"
    ):
        evaluate(split="train", output_dir=folder / "scores")
    with pytest.raises(mi.DataError, match="lies in the folder of the cases"):
        evaluate(output_dir=folder / "photos/scores")
    with pytest.raises(mi.DataError, match="training writes to this folder"):
        evaluate(output_dir=folder / "run")


def test_a_task_of_volumes_refuses_photos(folder, tmp_path):
    task = Segmentation(UNet3D(base_filters=2, depth=1, convs=1))
    with pytest.raises(mi.ConfigError, match=r"^Segmentation needs a data set of volumes, but .* a PhotoDescription"):
        train(folder, tmp_path / "run", task=task)


@functools.cache
def explained(**options):
    return mi.jobs.explain(task=SemanticSegmentation(TwoConvs(classes=3), classes=3), resolution=(16, 24), **options)


def test_explain_takes_the_size_of_crops():
    assert explained(layout=SPLIT).plan.memory < explained().plan.memory


def test_images_that_cannot_be_written_are_reported_after_the_others_are_done(folder, predict, tmp_path):
    photo = folder / "photos/images/photo_0.png"
    subject = open_images(
        PredictSettings(**COMMON, model_dir=folder / "run", input=photo, output=tmp_path / "one.png"), photo
    )
    pairs = subject.plan_predictions(photo, tmp_path / "one.png", False).pairs
    faults = {"a": mi.DataError("name a is too long"), "b": mi.DataError("name b is too long", ["output"])}
    planned = Planned(pairs, faults)
    text = r"2 of 3 photos cannot be used:\n  name a is too long\n  name b is too long"
    with pytest.raises(mi.DataError, match=text) as error:
        predict(input=photo, output=tmp_path / "one.png", planned=planned)
    assert error.value.settings == ("output",)
    assert labels(tmp_path / "one.png").shape == (20, 30)
