"""The demo: the held-out cases, the commands that it runs, and the summary."""

import json
import re

import pytest

from mtf_imaging.cli import main
from mtf_imaging.cli.commands import all_commands, demo
from mtf_imaging.cli.commands.demo import KINDS, choose_workflow
from mtf_imaging.cli.config.setup import JobSetup
from mtf_imaging.cli.runtime import subprocesses, usage
from mtf_imaging.cli.runtime import subprocesses as commands
from mtf_imaging.data.cases.hold_out import hold_out
from mtf_imaging.errors import DataError, MtfImagingError
from mtf_imaging.kinds.objects import demo as objects
from mtf_imaging.kinds.objects.generator import write_objects
from mtf_imaging.kinds.photos import demo as photos
from mtf_imaging.kinds.photos.scenes import write_scenes
from tests.commands import bound


def make_cases(folder, number):
    folder.mkdir(parents=True, exist_ok=True)
    for n in range(number):
        for kind in ("volume", "segmentation"):
            (folder / f"{kind}-{n}.nii.gz").touch()
    return folder


def make_photos(folder):
    write_scenes(folder, 4, seed=1, size=(16, 20), progress=False)
    return folder


def make_objects(folder):
    write_objects(folder, 4, seed=1, size=(40, 44), progress=False)
    return folder


@pytest.mark.parametrize(("number", "held_out"), [(2, ["1"]), (3, ["2"]), (4, ["3"]), (9, ["3", "7"])])
def test_every_fourth_case_is_held_out(tmp_path, number, held_out):
    cases = make_cases(tmp_path / "cases", number)
    for _ in range(2):  # the second call keeps the links
        found = hold_out(cases, tmp_path / "train", tmp_path / "held_out")
        assert [case.key for case in found] == held_out
    assert len(list((tmp_path / "train").iterdir())) == 2 * (number - len(held_out))


def test_one_case_is_too_few(tmp_path):
    with pytest.raises(DataError, match=r"contains 1 case\. Fix: give at least 2"):
        hold_out(make_cases(tmp_path / "cases", 1), tmp_path / "train", tmp_path / "held_out")


def test_cases_of_another_run_are_not_mixed_in(tmp_path):
    hold_out(make_cases(tmp_path / "a", 5), tmp_path / "train", tmp_path / "held_out")
    with pytest.raises(DataError, match=r"belongs to another run\. Fix: use another output_dir"):
        hold_out(make_cases(tmp_path / "b", 5), tmp_path / "train", tmp_path / "held_out")


DICE = {
    "cases": {"3": {"liver": {"dice": 0.9}, "lesion": {"dice": 0.5}}},
    "liver": {"dice_per_case": 0.9, "dice_global": 0.8},
    "lesion": {"dice_per_case": 0.9, "dice_global": 0.8},
}
IOU = {
    "mean_iou": 0.85,
    "classes": {"background": {"iou": 0.95}, "disc": {"iou": 0.75}, "ring": {"iou": None}},
    "photos": {"scene_0003": {}},
}
AP = {
    "boxes": {"ap": 0.5, "ap50": 0.9, "ap75": 0.7},
    "masks": {"ap": 0.4, "ap50": 0.8, "ap75": 0.6, "categories": {"disc": {"ap": 0.45, "ap50": 0.85, "ap75": None}}},
    "images": {"objects_0003": {}},
}
MAKERS = {photos.KIND: make_photos, objects.KIND: make_objects}


def fake_run(out, metrics):
    """Returns a replacement for `run_command` that writes the files of the summary, and the list of its calls."""
    lines = []

    def run(command, **values):
        lines.append((command, values))
        if command == "phantom":
            MAKERS[values["kind"]](values["output_dir"]) if "kind" in values else make_cases(values["output_dir"], 4)
        if command == "train":
            values["model_dir"].mkdir(parents=True)
            (values["model_dir"] / "losses.csv").write_text("step,loss\n1,0.5\n2,0.25\n")
        if command == "evaluate":
            values["output_dir"].mkdir()
            (values["output_dir"] / "metrics.json").write_text(json.dumps(metrics))

    return run, lines


def run_demo(tmp_path, monkeypatch, capsys, metrics, *argv):
    """Runs the demo without its commands, and returns their command lines and what the demo prints.

    Every command line is parsed.
    """
    out = tmp_path / "demo"
    run, lines = fake_run(out, metrics)
    monkeypatch.setattr(demo, "run_command", run)
    assert main.main(["demo", f"--output_dir={out}", *argv]) == 0
    for command, values in lines:
        words = subprocesses.command_words(command, values)[1:]
        usage.parse_flags(command, all_commands.load(command), words)
    text = capsys.readouterr().out
    total = len(re.findall("^# Step", text, re.MULTILINE))
    assert re.findall(r"^# Step (\d+) of (\d+): .* \(about .*\)\.$", text, re.MULTILINE) == [
        (str(number + 1), str(total)) for number in range(total)
    ]
    assert "step 2           0.250000000000   0.250000000000\n" in text
    return lines, text


@pytest.mark.parametrize("own_data", [False, True])
def test_the_demo_on_volumes(tmp_path, monkeypatch, capsys, own_data):
    out = tmp_path / "demo"
    argv = [f"--input_dir={make_cases(tmp_path / 'data', 4)}"] if own_data else []
    lines, text = run_demo(tmp_path, monkeypatch, capsys, DICE, *argv)
    expected = ["phantom", "convert", "convert", "train", "evaluate", "predict", "train", "train"]
    assert [command for command, _ in lines] == expected[own_data:]
    assert f"# Step 1 of {7 - own_data}: " in text
    assert "\nLosses            16 processors      1 processor\n" in text
    assert "case 3                         0.900   0.500\n" in text
    assert f"Picture: {out / 'evaluation' / 'pictures' / 'case-3.png'}" in text
    assert text.endswith(
        f"tensorboard --logdir {out / 'model'}\n"
        f"Next: mtf-imaging explain --model_dir {out / 'model'} --data_dir {out / 'records'}\n"
    )
    train, *compared = (values for command, values in lines if command == "train")
    assert (train["data_dir"], train["eval_dir"]) == (out / "records", out / "held_out_records")
    assert [values["gin_file"] for values in compared] == [["unet3d_demo", "4x4"], ["unet3d_demo", "single"]]
    assert [values["model_dir"] for values in compared] == [out / "compared_16", out / "compared_1"]
    (predict,) = (values for command, values in lines if command == "predict")
    assert predict["input"].name == "volume-3.nii.gz"


@pytest.mark.parametrize("own_data", [False, True])
def test_the_demo_on_photos(tmp_path, monkeypatch, capsys, own_data):
    out, data = tmp_path / "demo", tmp_path / "demo" / "scenes"
    argv = ["--kind=scenes"]
    if own_data:
        data = make_photos(tmp_path / "data")
        argv = [f"--input_dir={data}"]
    lines, text = run_demo(tmp_path, monkeypatch, capsys, IOU, *argv)
    expected = ["phantom", "train", "evaluate", "predict", "train", "train"]
    assert [command for command, _ in lines] == expected[own_data:]
    assert f"# Step 1 of {5 - own_data}: " in text
    assert "\nLosses             4 processors      1 processor\n" in text
    table = ["IoU of the held-out photos       IoU", "background                     0.950"]
    table += ["disc                           0.750", "ring                               -"]
    assert "\n".join([*table, "mean                           0.850\n"]) in text
    assert f"Picture: {out / 'evaluation' / 'pictures' / 'scene_0003.png'}" in text
    assert text.endswith(f"Next: mtf-imaging explain --model_dir {out / 'model'} --data_dir {data}\n")
    train, *compared = (values for command, values in lines if command == "train")
    assert (train["data_dir"], train["eval_dir"]) == (data, data)
    assert [values["gin_file"] for values in compared] == [["deeplab_scenes"], ["deeplab_scenes", "single"]]
    (predict,) = (values for command, values in lines if command == "predict")
    assert predict["input"] == data / "JPEGImages" / "scene_0003.jpg"
    assert predict["output"] == out / "scene_0003.png"


@pytest.mark.parametrize("own_data", [False, True])
def test_the_demo_on_objects(tmp_path, monkeypatch, capsys, own_data):
    out, data = tmp_path / "demo", tmp_path / "demo" / "objects"
    argv = ["--kind=objects"]
    if own_data:
        data = make_objects(tmp_path / "data")
        argv = [f"--input_dir={data}"]
    lines, text = run_demo(tmp_path, monkeypatch, capsys, AP, *argv)
    expected = ["phantom", "train", "evaluate", "train", "evaluate", "predict", "train", "train"]
    assert [command for command, _ in lines] == expected[own_data:]
    assert f"# Step 1 of {7 - own_data}: " in text
    assert "\nLosses             4 processors      1 processor\n" in text
    table = ["Objects of the held-out images      AP50    AP75      AP"]
    table += ["RetinaNet, boxes                   0.900   0.700   0.500"]
    table += ["Mask R-CNN, boxes                  0.900   0.700   0.500"]
    table += ["Mask R-CNN, masks                  0.800   0.600   0.400"]
    assert "\n".join([*table, "  disc                             0.850       -   0.450\n"]) in text
    assert f"Picture: {out / 'evaluation' / 'pictures' / 'objects_0003.png'}" in text
    assert text.endswith(f"Next: mtf-imaging explain --model_dir {out / 'model'} --data_dir {data}\n")
    trainings = [(values["model_dir"].name, values["gin_file"]) for command, values in lines if command == "train"]
    assert trainings == [
        ("retinanet", ["retinanet_objects"]),
        ("model", ["mask_rcnn_objects"]),
        ("compared_4", ["mask_rcnn_objects"]),
        ("compared_1", ["mask_rcnn_objects", "single"]),
    ]
    evaluations = [(values["model_dir"], values["output_dir"]) for command, values in lines if command == "evaluate"]
    assert evaluations == [
        (out / "retinanet", out / "retinanet_evaluation"),
        (out / "model", out / "evaluation"),
    ]
    (predict,) = (values for command, values in lines if command == "predict")
    assert predict["input"] == data / "val" / "objects_0003.jpg"
    assert predict["output"] == out / "objects_0003.json"


def without_masks(folder):
    path = folder / "annotations" / "instances_val.json"
    fields = json.loads(path.read_text())
    for one in fields["annotations"]:
        del one["segmentation"]
    path.write_text(json.dumps(fields))


@pytest.mark.parametrize(
    ("make", "change", "message"),
    [
        (
            make_objects,
            lambda folder: (folder / "annotations/instances_val.json").unlink(),
            r"has no split 'val', because .*instances_val\.json is missing\. .*Fix: ",
        ),
        (
            make_objects,
            without_masks,
            r"objects_0003\.jpg: an object of the split 'val' has no \"segmentation\", which .* Fix: add them",
        ),
        (
            make_objects,
            lambda folder: (folder / "annotations/instances_train.json").write_text("{"),
            r"instances_train\.json: ",
        ),
        (
            make_photos,
            lambda folder: (folder / "ImageSets/Segmentation/val.txt").unlink(),
            r"has no split 'val'\. .*Fix: choose one of train\.",
        ),
        (
            make_photos,
            lambda folder: (folder / "SegmentationClass/scene_0003.png").unlink(),
            r"photos have no label image",
        ),
        (make_photos, lambda folder: (folder / "classes.json").write_text("{"), r"classes\.json: not a JSON file"),
        (
            lambda folder: make_photos(folder) / "JPEGImages",
            lambda folder: None,
            r"contains photos without label images\. Fix: ",
        ),
    ],
)
def test_images_that_the_demo_cannot_use(tmp_path, make, change, message, capsys):
    folder = make(tmp_path / "data")
    change(folder)
    assert main.main(["demo", f"--output_dir={tmp_path / 'demo'}", f"--input_dir={folder}"]) == 1
    out, err = capsys.readouterr()
    assert not out
    assert re.search(message, err)


def test_the_summary_states_the_processors_of_the_layout(tmp_path):
    for workflow in (choose_workflow(tmp_path, None, kind) for kind in KINDS):
        for job, number in ((workflow.job, workflow.processors), (workflow.job_of_one, 1)):
            with bound(*job):
                assert JobSetup().parsed_layout.processors == number


def test_a_file_is_not_a_folder_of_data(tmp_path, capsys):
    file = make_photos(tmp_path / "data") / "JPEGImages" / "scene_0000.jpg"
    assert main.main(["demo", f"--output_dir={tmp_path / 'demo'}", f"--input_dir={file}"]) == 2
    assert f"--input_dir {file}: is a file. Fix: give the folder" in capsys.readouterr().err


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_for_synthetic_data(tmp_path, kind, capsys):
    assert main.main(["demo", f"--output_dir={tmp_path}", f"--input_dir={tmp_path}", f"--kind={kind}"]) == 2
    assert f"--kind {kind} is for synthetic data, but --input_dir is {tmp_path}. Fix: " in capsys.readouterr().err


def test_a_command_is_printed_as_typed_and_its_failure_ends_the_demo(tmp_path, capfd):
    missing = tmp_path / "not there"
    with pytest.raises(MtfImagingError, match="this command failed: mtf-imaging convert --input_dir '/"):
        commands.run_command("convert", input_dir=missing, output_dir=tmp_path, resolution=16)
    out, err = capfd.readouterr()
    assert out == f"$ mtf-imaging convert --input_dir '{missing}' --output_dir {tmp_path} --resolution 16\n"
    assert f"mtf-imaging: {missing}: " in err
    assert "Traceback" not in err
