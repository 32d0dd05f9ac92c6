"""The study of small objects: its images, the commands that it runs, and its table."""

import json
import sys

import numpy as np
import pytest

from benchmarks import objects_study
from mtf_imaging.cli.commands import all_commands
from mtf_imaging.cli.runtime import usage
from mtf_imaging.cli.runtime.subprocesses import command_words
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
    """Replaces the commands and returns the list of calls; larger images have higher scores."""
    asked = []

    def run(command, **values):
        asked.append((command, values))
        assert usage.parse_flags(command, all_commands.load(command), command_words(command, values)[1:])
        if command == "evaluate":
            folder = values["output_dir"]
            size, seed = (int(folder.parent.name.split("_")[at]) for at in (0, 2))
            folder.mkdir(parents=True)
            scores = dict.fromkeys(objects_study.MEASURES, size / 1000 + seed / 10)
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
    assert [command for command, _ in commands] == ["train", "evaluate"] * 6
    meshes = [values["mesh_shape"] for command, values in commands if command == "train"]
    assert meshes == ["rows:1,cols:1"] * 4 + ["rows:2,cols:2"] * 2
    assert [len(find_object_images(tmp_path / "images", split)) for split in ("train", "val")] == [3, 1]
    table = capsys.readouterr().out.splitlines()
    assert table[-2].startswith("| 160 x 160 | 0.310 (0.260 to 0.360) |")
    assert table[-1].startswith("| 1280 x 1280 | 1.430 (1.380 to 1.480) |")
