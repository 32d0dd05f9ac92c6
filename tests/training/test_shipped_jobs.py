"""Every shipped job is built under every shipped layout, at the smallest resolution that the largest mesh divides."""

import gin
import pytest

from mtf_imaging.cli import resources
from mtf_imaging.cli.main import main

SHIPPED = list(resources.shipped_files())
JOBS = [name for name in SHIPPED if name.startswith("gin/")]
LAYOUTS = [name for name in SHIPPED if name.startswith("layouts/")]
# The network halves three times, so the 16 slices along x and y are of 8 voxels.
SMALL = ["--resolution", "x:128,y:128,z:16", "--batch_size", "2"]


def dry_run(*words):
    gin.clear_config()
    try:
        return main(["train", "--data_dir", "none", "--model_dir", "none", *words, "--dry_run"])
    finally:
        gin.clear_config()


def test_there_are_jobs_and_layouts():
    assert {"gin/unet3d_demo.gin", "gin/unet3d_real_ct.gin", "gin/unet3d_lits.gin"} <= set(JOBS)
    assert len(LAYOUTS) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_it_builds(job, layout, capsys):
    assert dry_run("--gin_file", job, "--gin_file", layout, *SMALL) == 0
    assert "weights in 50 variables" in capsys.readouterr().out


def test_the_papers_job_brings_its_own_layout(capsys):
    assert dry_run("--gin_file", "unet3d_lits", "--gin.UNet3D.base_filters=2", "--gin.UNet3D.convs=1") == 0
    image = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("image"))
    assert image.endswith("16 x 16 x 16 x 256 x 1")
