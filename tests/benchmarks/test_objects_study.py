"""The study of small objects: its images, the commands that it runs, and its table."""

import json
import sys

import numpy as np
import pytest

from benchmarks import objects_study
from mtf_imaging.cli.commands import all_commands
from mtf_imaging.cli.runtime import subprocesses, usage
from mtf_imaging.cli.runtime.subprocesses import command_words
from mtf_imaging.errors import MtfImagingError
from mtf_imaging.kinds.objects.reading.annotations import find_object_images


def test_boxes_surround_the_objects_of_an_image():
    pixels, annotations = objects_study.make_image(3)
    assert pixels.shape == (objects_study.SIDE, objects_study.SIDE, 3)
    assert len(annotations) > 30
    assert min(one["area"] for one in annotations) < 32**2 < max(one["area"] for one in annotations)
    empty = objects_study.painting.background(np.random.default_rng(3), objects_study.SIDE, objects_study.SIDE)
    painted = np.abs(pixels.astype(float) - empty).max(axis=-1) > 60  # more than the light and the noise change
    for one in annotations:
        left, top, width, height = one["bbox"]
        painted[top : top + height, left : left + width] = False
        assert one["area"] <= width * height
    assert painted.mean() < 1e-3


@pytest.fixture
def commands(monkeypatch):
    """Replaces the commands and returns the list of calls; larger images and the last steps have higher scores."""
    asked = []

    def run(command, **values):
        asked.append((command, values))
        assert usage.parse_flags(command, all_commands.load(command), command_words(command, values)[1:])
        if command == "evaluate":
            folder = values["output_dir"]
            size, seed = (int(folder.parts[-3].split("_")[at]) for at in (0, 2))
            folder.mkdir(parents=True)
            gain = 2.0 * (folder.parts[-2] == "after")
            scores = dict.fromkeys(objects_study.MEASURES, size / 1000 + seed / 10 + gain)
            (folder / "metrics.json").write_text(json.dumps({"boxes": scores}))

    monkeypatch.setattr(objects_study, "run_command", run)
    return asked


def test_each_size_and_seed_is_trained_once_on_the_same_images(tmp_path, monkeypatch, commands, capsys):
    monkeypatch.setattr(objects_study, "SIDE", 320)
    monkeypatch.setattr(objects_study, "_SCENES", 2)
    words = [
        "objects_study",
        "--output_dir",
        str(tmp_path),
        "--num_images",
        "4",
        "--sizes",
        "320,160",
        "--seeds",
        "1,2",
    ]
    for argv in (words, [*words[:-3], "160,1280", "--seeds", "1,2"]):
        monkeypatch.setattr(sys, "argv", argv)
        objects_study.main()
    assert [command for command, _ in commands] == ["train", "evaluate"] * 2 * 6
    trained = [values for command, values in commands if command == "train"]
    assert [values["mesh_shape"] for values in trained] == ["rows:1,cols:1"] * 8 + ["rows:2,cols:2"] * 4
    for first, last in zip(trained[::2], trained[1::2], strict=True):
        assert "frozen" not in first
        assert (last["initial_weights"], last["frozen"]) == (first["model_dir"], "*moving_*")
        assert last["gin_param"] == [*first["gin_param"], "num_steps = 120", "PolyDecay.initial = 0.001"]
        assert all(last[name] == first[name] for name in ("data_dir", "seed", "gin_file", "mesh_shape", "layout"))
    assert [len(find_object_images(tmp_path / "images", split)) for split in ("train", "val")] == [3, 1]
    table = capsys.readouterr().out.splitlines()
    assert table[-2].startswith("| 160 x 160 | 2 | 0.310 (0.260 to 0.360) | 2.310 (2.260 to 2.360) |")
    assert table[-1].startswith("| 1280 x 1280 | 2 | 1.430 (1.380 to 1.480) | 3.430 (3.380 to 3.480) |")


def test_no_setting_was_chosen_with_the_held_out_images(tmp_path, monkeypatch):
    monkeypatch.setattr(objects_study, "SIDE", 320)
    monkeypatch.setattr(objects_study, "_SCENES", 2)
    objects_study.write_images(tmp_path, 8)
    numbers = {part: sorted(int(path.stem) for path in (tmp_path / part).glob("*.jpg")) for part in ("train", "val")}
    assert numbers == {"train": [0, 1, 2, 4, 5, 6], "val": [1003, 1007]}


@pytest.mark.parametrize("error", [MtfImagingError("train failed"), KeyboardInterrupt("stopped in train")])
def test_a_command_that_fails_ends_the_study_without_a_traceback(tmp_path, monkeypatch, error):
    def fail(command, **values):
        raise error

    monkeypatch.setattr(subprocesses, "run_command", fail)
    monkeypatch.setattr(sys, "argv", ["objects_study", "--output_dir", str(tmp_path), "--num_images", "1"])
    with pytest.raises(SystemExit, match=str(error)):
        objects_study.main()
