"""The job gin/deeplab_scenes learns to segment scenes, and splits uneven crops."""

import re

import pytest

from mtf_imaging.kinds.photos.scenes import write_scenes
from tests.commands import run
from tests.training.test_shipped_jobs import dry_run


@pytest.mark.slow
def test_it_learns(tmp_path, caplog):
    """The whole job reaches a mean IoU above 0.85. A third of its steps is enough to show that it learns."""
    folder = tmp_path / "scenes"
    write_scenes(folder, 120, seed=1, progress=False)
    words = [f"--data_dir={folder}", f"--eval_dir={folder}", f"--model_dir={tmp_path / 'run'}"]
    assert run("train", *words, "--gin_file=deeplab_scenes", "--gin_file=single", "--num_steps=300") == 0
    (value,) = re.findall(r"step 300: held-out cases: .* mean_iou (\S+),", caplog.text)
    assert float(value) > 0.5  # background everywhere has 0.13


@pytest.mark.slow
def test_its_crops_are_split_along_both_dimensions(tmp_path, capsys):
    write_scenes(tmp_path, 4, seed=1, size=(16, 20), progress=False)
    assert dry_run("--gin_file=deeplab_scenes", data_dir=tmp_path) == 0
    out = capsys.readouterr().out
    assert out.startswith("mesh rows:2,cols:2, layout height:rows,width:cols: 4 processors")
    (image,) = (line for line in out.splitlines() if line.startswith("image "))
    assert image.split("  ")[-1].strip() == "8 x 49 x 49 x 3"
