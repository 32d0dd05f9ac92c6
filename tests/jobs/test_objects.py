"""The jobs on images with objects: training, evaluation and prediction, under any layout, with a tiny task."""

import contextlib
import io
import json
import re
import shutil

import numpy as np
import pytest
from PIL import Image
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

import mtf_imaging as mi
from mtf_imaging.kinds.all_kinds import read_facts
from mtf_imaging.kinds.objects.data_set import Objects
from mtf_imaging.kinds.objects.scoring.coco import MEASURES
from tests import tiny_runs
from tests.jobs.object_network import CATEGORIES, TinyDetection, write_objects_folder
from tests.jobs.object_runs import COMMON, DATA, SPLIT, evaluate_run, predict_run, train
from tests.jobs.photo_network import write_photos
from tests.kinds.coco_folder import make_annotation, make_fields, write_annotations, write_images
from tests.scores import read_losses, read_rows, read_scores


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_runs.objects(tmp_path_factory)


@pytest.fixture
def evaluate(folder, tmp_path):
    return lambda **options: evaluate_run(folder, **{"output_dir": tmp_path / "scores"} | options)


@pytest.fixture
def predict(folder, tmp_path):
    return lambda **options: predict_run(folder, **{"output": tmp_path / "out"} | options)


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.*"))


@pytest.mark.slow
def test_a_run_stores_the_size_the_categories_and_the_held_out_split(folder):
    facts = read_facts(folder / "run")
    assert (facts.resolution, facts.held_out_split) == ("height:16,width:24", "val")
    assert facts.description == json.loads(json.dumps(CATEGORIES.to_fields()))
    assert json.loads((folder / "run/run.json").read_text()).keys() == {
        *("resolution", "spacing", "fold_digest", "objects", "held_out_split", "provenance")
    }


@pytest.mark.slow
def test_held_out_images_are_scored_as_in_evaluate(folder):
    scores = read_rows(folder / "run/eval/scores.csv")
    assert [*scores[0]] == ["step", "loss", "box_ap", "box_ap50", "mask_ap", "mask_ap50"]
    assert [int(row["step"]) for row in scores] == [2, 4]
    metrics = json.loads((folder / "scores/metrics.json").read_text())
    for prefix, kind in (("box", "boxes"), ("mask", "masks")):
        for name in ("ap", "ap50"):
            assert float(scores[-1][f"{prefix}_{name}"]) == pytest.approx(metrics[kind][name], rel=1e-12)
    assert metrics["boxes"]["ap50"] > 0, "the tiny task finds nothing, so the comparison shows nothing"
    best = max(scores, key=lambda row: float(row["mask_ap"]))  # the monitor of a data set with masks
    assert [path.name for path in (folder / "run/best").glob("*.index")] == [f"ckpt-{best['step']}.index"]


@pytest.mark.slow
def test_evaluation_writes_detections_pictures_and_numbers(folder):
    assert files(folder / "scores") == [
        *("detections.json", "metrics.csv", "metrics.json", "pictures/q0.png", "report.html")
    ]
    detections = json.loads((folder / "scores/detections.json").read_text())
    assert {one["image_id"] for one in detections} <= {21, 22, 23}
    assert {one["file_name"] for one in detections} <= {"q0.png", "q1.png", "q2.png"}
    assert {one["category_id"] for one in detections} <= {1, 3}


@pytest.mark.parametrize(("kind", "iou_type"), [("boxes", "bbox"), ("masks", "segm")])
def test_the_numbers_are_those_of_pycocotools_on_the_files(folder, kind, iou_type):
    """pycocotools reads the annotations and the detections that evaluate wrote."""
    detections = json.loads((folder / "scores/detections.json").read_text())
    if kind == "masks":
        for one in detections:
            del one["bbox"]  # pycocotools would take the areas of the boxes
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(str(folder / "objects/annotations/instances_val.json"))
        evaluation = COCOeval(truth, truth.loadRes(detections), iou_type)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    metrics = json.loads((folder / "scores/metrics.json").read_text())[kind]
    expected = [None if value < 0 else value for value in evaluation.stats.tolist()]
    assert [metrics[name] for name in MEASURES] == expected


@pytest.mark.slow
def test_training_under_a_layout_equals_training_on_one_processor(folder, tmp_path):
    train(folder, tmp_path / "split", layout=SPLIT)
    np.testing.assert_allclose(read_losses(tmp_path / "split"), read_losses(folder / "run"), rtol=1e-9)
    scores = [read_rows(run / "eval/scores.csv") for run in (tmp_path / "split", folder / "run")]
    assert [row["box_ap"] for row in scores[0]] == [row["box_ap"] for row in scores[1]]


@pytest.mark.slow
def test_a_resumed_run_equals_an_uninterrupted_one(folder, tmp_path):
    train(folder, tmp_path / "run", num_steps=2)
    train(folder, tmp_path / "run")
    for name in ("losses.csv", "eval/scores.csv"):
        assert (tmp_path / "run" / name).read_text() == (folder / "run" / name).read_text()


@pytest.mark.slow
def test_training_without_masks_scores_boxes_only(folder, tmp_path):
    data_set = Objects(size=(16, 24), max_boxes=3)
    train(folder, tmp_path / "run", num_steps=2, data_set=data_set, task=TinyDetection())
    assert [*read_rows(tmp_path / "run/eval/scores.csv")[0]] == ["step", "loss", "box_ap", "box_ap50"]
    mi.jobs.evaluate(
        **COMMON | {"task": TinyDetection()},
        model_dir=tmp_path / "run",
        input_dir=folder / "objects",
        output_dir=tmp_path / "scores",
    )
    metrics = json.loads((tmp_path / "scores/metrics.json").read_text())
    assert "masks" not in metrics
    assert all("segmentation" not in one for one in json.loads((tmp_path / "scores/detections.json").read_text()))


def test_prediction_agrees_with_evaluation_under_any_layout(folder, predict, tmp_path):
    (one,), (split,) = predict(), predict(output=tmp_path / "split", layout=SPLIT)
    names = [f"overlays/p{n}.png" for n in range(4)] + [f"overlays/q{n}.png" for n in range(3)]
    assert one == tmp_path / "out/detections.json"
    assert files(tmp_path / "out") == ["detections.json", "images.json", *names, "predictions.jsonl"]
    assert one.read_bytes() == split.read_bytes()
    evaluated = json.loads((folder / "scores/detections.json").read_text())
    assert [each for each in json.loads(one.read_text()) if each["image_id"] > 20] == evaluated
    with Image.open(tmp_path / "out/overlays/p2.png") as picture:
        assert picture.size == (40, 12)


def test_pycocotools_reads_predictions_with_their_list_of_images(predict, tmp_path):
    predict()
    with contextlib.redirect_stdout(io.StringIO()):
        results = COCO(str(tmp_path / "out/images.json")).loadRes(str(tmp_path / "out/detections.json"))
    assert len(results.imgs) == 7
    assert results.imgs[22] == {"id": 22, "file_name": "q1.png", "height": 18, "width": 40}
    assert [one["name"] for one in results.cats.values()] == ["cup", "fork"]


def test_images_without_annotations_are_numbered(folder, predict, tmp_path):
    write_images(
        tmp_path / "plain", {"images": [{"id": 1, "file_name": f"{n}.png", "height": 9, "width": 12} for n in "ba"]}
    )
    (path,) = predict(input=tmp_path / "plain")
    images = json.loads((path.parent / "images.json").read_text())["images"]
    assert [(one["id"], one["file_name"]) for one in images] == [(1, "a.png"), (2, "b.png")]
    assert {one["file_name"]: one["image_id"] for one in json.loads(path.read_text())} == {"a.png": 1, "b.png": 2}


def test_one_image_is_predicted(folder, predict, tmp_path):
    image = tmp_path / "holiday.png"
    image.write_bytes((folder / "objects/train/p1.png").read_bytes())
    (path,) = predict(input=image, output=tmp_path / "holiday.json")
    written = {"holiday.json", "holiday_images.json", "holiday_overlay.png", "holiday.png"}
    assert {each.name for each in tmp_path.iterdir()} == written
    assert {one["file_name"] for one in json.loads(path.read_text())} == {"holiday.png"}
    with pytest.raises(mi.DataError, match=r"the detections of one image need a name that ends in \.json\. Fix: use"):
        predict(input=image, output=tmp_path / "other.png")
    with pytest.raises(mi.DataError, match=r"is a folder, so the output must be a folder, too\. Fix: name a folder"):
        predict(output=tmp_path / "out.json")


def test_an_image_is_not_overwritten(folder, predict, tmp_path):
    image = tmp_path / "x_overlay.png"
    image.write_bytes((folder / "objects/train/p1.png").read_bytes())
    with pytest.raises(mi.DataError, match=r"x_overlay\.png: would be overwritten by its detections\. Fix: name"):
        predict(input=image, output=tmp_path / "x.json", overwrite=True)


def test_results_of_other_images_are_kept(folder, evaluate):
    with pytest.raises(mi.DataError, match=r"metrics\.json: the file already exists and belongs to other images"):
        evaluate(split="train", output_dir=folder / "scores")
    with pytest.raises(mi.DataError, match="lies in the folder of the cases"):
        evaluate(output_dir=folder / "objects/scores")
    with pytest.raises(mi.DataError, match="training writes to this folder"):
        evaluate(output_dir=folder / "run")


def test_a_split_is_evaluated(folder, evaluate, tmp_path):
    scores = evaluate(split="train")
    assert [score.key for score in scores] == ["p0", "p1", "p2", "p3"]
    with pytest.raises(mi.DataError, match=r"has no split 'vla'.*Did you mean 'val'\? Fix: choose one of train, val"):
        evaluate(split="vla", output_dir=tmp_path / "other")
    own = shutil.copytree(folder / "scores", tmp_path / "own")
    assert evaluate(output_dir=own)[1].size == (18, 40)  # the same images replace their own results


def test_submissions_and_ensembles_are_refused(folder, predict, evaluate, tmp_path):
    with pytest.raises(mi.ConfigError, match="submission = True has no effect on images with objects: it is a setting"):
        predict(submission=True)
    (tmp_path / "cv").mkdir()
    (tmp_path / "cv/fold_0").symlink_to(folder / "run")
    for call in (predict, evaluate):
        with pytest.raises(mi.ConfigError, match=r"^ensemble = True has no effect on images with objects: it is a"):
            call(model_dir=tmp_path / "cv", ensemble=True)


def test_folders_of_another_kind_are_explained(folder, evaluate, predict, tmp_path):
    photos = write_photos(tmp_path / "photos")
    text = (
        "holds photos, but images with objects are needed here. Fix: give images with objects as {}, or the folder of"
    )
    with pytest.raises(mi.DataError, match=re.escape(text.format("input_dir"))) as error:
        evaluate(input_dir=photos)
    assert error.value.settings == ("input_dir", "model_dir")
    with pytest.raises(mi.DataError, match=re.escape(text.format("input"))):
        predict(input=photos)
    data = mi.jobs.TrainingData(photos, DATA)
    with pytest.raises(mi.DataError, match=r"holds photos, but the data set is of images with .* choose Photos as the"):
        mi.jobs.train(**COMMON, data=data, model_dir=tmp_path / "run", num_steps=1)


def test_other_categories_are_refused(folder, evaluate, tmp_path):
    other = write_objects_folder(tmp_path / "objects")
    for path in (other / "annotations").iterdir():
        path.write_text(path.read_text().replace("fork", "spoon"))
    message = r"1 of its categories are not those of the run, such as 3 'spoon'\."
    with pytest.raises(mi.DataError, match=message):
        evaluate(input_dir=other)
    data = mi.jobs.TrainingData(folder / "objects", DATA, eval_dir=other)
    with pytest.raises(mi.DataError, match=message):
        mi.jobs.train(**COMMON, data=data, model_dir=tmp_path / "run", num_steps=1)


def test_held_out_images_need_objects(folder, tmp_path):
    other = write_objects_folder(tmp_path / "objects")
    path = other / "annotations/instances_val.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"annotations": []}))
    data = mi.jobs.TrainingData(folder / "objects", DATA, eval_dir=other)
    with pytest.raises(mi.DataError, match="the 3 held-out images have no objects, so they have no average precision"):
        mi.jobs.train(**COMMON, data=data, model_dir=tmp_path / "run", num_steps=1)


@pytest.mark.slow
def test_masks_that_the_network_does_not_predict_are_reported(folder, tmp_path):
    class BoxesOnly(TinyDetection):
        def for_data(self, description):
            return BoxesOnly(True, len(description.categories))

        def predict(self, image):
            result = super().predict(image)
            del result["masks"]
            return result

    with pytest.raises(mi.ConfigError, match=r"the network predicts no masks, but the data set has masks") as error:
        train(folder, tmp_path / "run", num_steps=1, task=BoxesOnly(True))
    assert error.value.settings == ("data", "task")


def test_cross_validation_refuses_objects(folder, tmp_path):
    data = mi.jobs.TrainingData(folder / "objects", DATA)
    message = r"the data set is of class Objects\. Fix: hold out images with the data set, and call train and evaluate"
    with pytest.raises(mi.ConfigError, match=message):
        mi.jobs.cross_validate(**COMMON, data=data, input_dir=folder / "objects", output_dir=tmp_path / "cv")


@pytest.fixture
def hostile(tmp_path):
    """Returns a function that writes a stranger's data set, beside files of the user."""
    (tmp_path / "photos").mkdir()
    pixels = np.random.default_rng(0).integers(0, 255, (16, 24, 3), np.uint8)
    for name in ("mine.png", "photos/mine.png", "pictures.png"):
        Image.fromarray(pixels).save(tmp_path / name)
    fields = make_fields([(16, 24)], [make_annotation(1, 11, 1, (2, 3, 9, 7))])

    def write(file_name):
        fields["images"][0]["file_name"] = file_name
        write_annotations(tmp_path / "data", "val", fields)
        (tmp_path / "data/val").mkdir()
        path = tmp_path / "data/val" / file_name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(path)
        return tmp_path / "data"

    return write


def contents_outside(folder):
    """Returns the contents of all files outside of the output folder `out`."""
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.is_relative_to(folder / "out"))
    return {path: path.read_bytes() for path in paths}


def run_job(command, run, data, output, overwrite=False):
    """Evaluates or predicts the images of a folder."""
    if command == "evaluate":
        return mi.jobs.evaluate(**COMMON, model_dir=run, input_dir=data, output_dir=output)
    return mi.jobs.predict(**COMMON, model_dir=run, input=data, output=output, overwrite=overwrite)


@pytest.mark.parametrize("command", ["evaluate", "predict"])
@pytest.mark.parametrize(
    "file_name",
    ["../../mine.png", "../../photos/mine.png", "{here}/mine.png", "a/../../../mine.png", "..\\..\\mine.png"],
)
def test_a_file_name_never_leads_out_of_the_output_folder(folder, hostile, tmp_path, command, file_name):
    data = hostile(file_name.format(here=tmp_path))
    before = contents_outside(tmp_path)
    for out in ("out", "out/a/b"):
        with pytest.raises(mi.DataError, match=r"mine\.png': .*, so its file would not lie in .*out.* Fix: rename"):
            run_job(command, folder / "run", data, tmp_path / out)
    assert contents_outside(tmp_path) == before


@pytest.mark.parametrize(("command", "name"), [("evaluate", "pictures"), ("predict", "overlays")])
def test_a_link_never_leads_out_of_the_output_folder(folder, hostile, tmp_path, command, name):
    data = hostile("mine.png")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).symlink_to(tmp_path / "photos")
    before = contents_outside(tmp_path)
    with pytest.raises(mi.DataError, match=r"a symbolic link leads out of the output folder, to .*photos\. Fix: rem"):
        run_job(command, folder / "run", data, tmp_path / "out", overwrite=True)
    assert contents_outside(tmp_path) == before


def test_pictures_of_an_evaluation_never_replace_the_images(folder, tmp_path):
    fields = make_fields([(16, 24)], [make_annotation(1, 11, 1, (2, 3, 9, 7))])
    write_annotations(tmp_path / "pictures", "val", fields)
    write_images(tmp_path / "pictures", fields)
    before = contents_outside(tmp_path)
    with pytest.raises(mi.DataError, match=r"pictures/p0\.png: would be overwritten by its picture\. Fix: name "):
        mi.jobs.evaluate(**COMMON, model_dir=folder / "run", input_dir=tmp_path / "pictures", output_dir=tmp_path)
    assert contents_outside(tmp_path) == before


@pytest.mark.slow
def test_batches_change_no_results(folder, evaluate, predict, tmp_path):
    """Three images in batches of two; the second batch is filled up."""
    (one,), (two,) = (predict(output=tmp_path / f"predicted{size}", eval_batch_size=size) for size in (1, 2))
    assert one.read_text() == two.read_text() != "[]\n"
    for size, layout in ((2, mi.Layout.parse("")), (2, SPLIT), (3, mi.Layout.parse("rows:3", "batch:rows"))):
        out = tmp_path / f"{size}_{layout}".replace("/", "_")
        evaluate(output_dir=out, eval_batch_size=size, layout=layout, num_pictures=1)
        assert (out / "detections.json").read_text() == (folder / "scores/detections.json").read_text()
        assert read_scores(out) == read_scores(folder / "scores")


@pytest.mark.slow
def test_flips_and_scales_are_exact_under_any_layout(evaluate, predict, tmp_path):
    options = {"flips": ("width",), "scales": (0.75, 1.0)}
    evaluate(**options, eval_batch_size=2)
    evaluate(**options, output_dir=tmp_path / "split", layout=SPLIT)
    (path,) = predict(**options)
    evaluated = json.loads((tmp_path / "scores/detections.json").read_text())
    assert evaluated == json.loads((tmp_path / "split/detections.json").read_text())
    assert evaluated == [one for one in json.loads(path.read_text()) if one["image_id"] > 20]
    evaluate(output_dir=tmp_path / "plain")
    assert evaluated != json.loads((tmp_path / "plain/detections.json").read_text())
    with pytest.raises(mi.ConfigError, match=r"flips = \('x',\): not axes of the images\. Fix: list each of"):
        evaluate(flips=("x",), output_dir=tmp_path / "other")
