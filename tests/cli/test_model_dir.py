"""The folder of a run accepts only the task that it was trained with."""

import pytest

from mtf_imaging.cli.main import main
from mtf_imaging.data.records.convert import convert
from tests.evaluation.oracle import store

SEGMENTATION = "@unet3d.LiverTumorSegmentation()"
UNET = f"import mtf_imaging.models.unet3d\njob.task = {SEGMENTATION}\nsetup.resolution = 'x:16,y:16,z:16'\n"
CLASSIFIER = "import mtf_imaging.models.resnet\njob.task = @resnet.Classification()\nsetup.resolution = 'x:64,y:64'\n"
WORDS = {
    "train": ["--data_dir={records}"],
    "evaluate": ["--input_dir={cases}", "--output_dir={out}"],
    "predict": ["--input={cases}", "--output={out}"],
}


@pytest.fixture
def folder(tmp_path):
    def make(config):
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "config.gin").write_text(config)
        (tmp_path / "run" / "ckpt-1.index").touch()
        return tmp_path / "run"

    return make


@pytest.mark.parametrize("command", WORDS)
@pytest.mark.parametrize(
    ("config", "made", "job", "asked"),
    [
        (UNET, SEGMENTATION, "classify_4way", "@resnet.Classification()"),
        (CLASSIFIER, "@resnet.Classification()", "unet3d_demo", SEGMENTATION),
    ],
    ids=["a classifier in a U-Net's", "a U-Net in a classifier's"],
)
def test_a_job_in_the_folder_of_another_network_is_refused(folder, tmp_path, command, config, made, job, asked, capsys):
    model_dir, paths = folder(config), {name: tmp_path / name for name in ("cases", "records", "out")}
    store(paths["cases"], 1, "RAS")
    convert(paths["cases"], paths["records"], 16, workers=1, progress=False)
    words = [word.format(**paths) for word in WORDS[command]]
    assert main([command, f"--model_dir={model_dir}", f"--gin_file={job}", *words]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"mtf-imaging: {model_dir}: this run was trained with job.task = {made}, but job.task is now {asked}. Fix: "
        "give another --model_dir or the job of the run; if the network is the same, change job.task in config.gin."
    )
    assert (model_dir / "config.gin").read_text() == config


def test_another_spelling_of_the_same_task_is_the_same(folder, capsys):
    """The next check, of the missing folder `none`, fails instead."""
    words = [
        "train",
        f"--model_dir={folder(UNET)}",
        "--gin_file=unet3d_demo",
        "--gin.job.task=@LiverTumorSegmentation()",
    ]
    assert main([*words, "--data_dir=none"]) == 1
    assert "none: this folder of records does not exist" in capsys.readouterr().err
