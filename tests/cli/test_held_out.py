"""`train --eval_dir`: TensorBoard events, scores, the best checkpoint, and commands that use it."""

import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from mtf_imaging.data.records.data_set import Records
from mtf_imaging.errors import ConfigError
from mtf_imaging.jobs import evaluating
from mtf_imaging.jobs.data.training_data import TrainingData
from mtf_imaging.jobs.held_out.cases import open_held_out
from mtf_imaging.kinds.volumes.held_out import HeldOutRecords
from tests import tiny_runs
from tests.commands import run
from tests.scores import read_rows
from tests.tiny_runs import train_volumes
from tests.training.test_events import open_events, read, read_texts
from tests.training.test_job import LAYOUTS, TINY

STEPS = [
    "--gin.train.eval_every=2",
    "--gin.train.checkpoint_every=3",
    "--gin.train.monitor='liver'",
    "--num_steps",
    5,
    "--seed",
    3,
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three training cases, two held-out cases, and a run under a layout that splits the batch."""
    folder = tmp_path_factory.mktemp("held_out")
    for name, number, seed in (("train", 3, 1), ("held_out", 2, 2)):
        cases, records = folder / f"{name}_cases", folder / name
        assert run("phantom", "--output_dir", cases, "--num_cases", number, "--seed", seed) == 0
        assert run("convert", "--input_dir", cases, "--output_dir", records, "--resolution", 16, "--workers", 1) == 0
    data = ["--data_dir", folder / "train", "--eval_dir", folder / "held_out", "--model_dir", folder / "run"]
    assert run("train", *data, "--batch_size", 2, *TINY, *LAYOUTS["stacked"], *STEPS) == 0
    return folder


@pytest.mark.slow
def test_events_are_the_losses_and_the_scores(folder):
    losses, scores = read_rows(folder / "run/losses.csv"), read_rows(folder / "run/eval/scores.csv")
    assert [int(row["step"]) for row in scores] == [2, 4, 5]
    for name, table in (("train", losses), ("eval", scores)):
        shown = read(folder / "run" / name)
        for column in ("loss", "liver", "lesion"):
            assert shown[column] == [(int(row["step"]), np.float32(row[column])) for row in table]
    shown = read(folder / "run/train")
    assert shown["loss"] == [(int(row["step"]), np.float32(row["loss"])) for row in losses]
    assert shown["learning_rate"] == [(step, np.float32(0.003)) for step in range(5)]
    assert all(speed > 0 for _, speed in shown["volumes_per_second"])


IN_PARTS = ["--batch_size", 4, "--micro_batches", 2, *LAYOUTS["stacked"]]


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], IN_PARTS], ids=["whole", "in parts"])
def test_the_held_out_loss_equals_the_training_loss_on_the_same_cases(folder, tmp_path, more):
    """If one case is both held out and trained on, its held-out loss after k steps is the training loss of step k."""
    records = tmp_path / "records"
    cases = ["--input_dir", folder / "one", "--output_dir", records, "--resolution", 16, "--workers", 1]
    assert run("phantom", "--output_dir", folder / "one", "--num_cases", 1) == 0
    assert run("convert", *cases) == 0
    data = ["--data_dir", records, "--eval_dir", records, "--model_dir", tmp_path / "run", *TINY, *more]
    exact = ["--gin.UNet3D.dropout_rate=0.0", "--gin.UNet3D.norm='instance'", "--gin.job.dtype='float64'"]
    assert run("train", *data, *exact, "--num_steps", 3, "--gin.train.eval_every=1") == 0
    losses = {int(row["step"]): float(row["loss"]) for row in read_rows(tmp_path / "run/losses.csv")}
    scores = {int(row["step"]): float(row["loss"]) for row in read_rows(tmp_path / "run/eval/scores.csv")}
    assert losses.keys() == {0, 1, 2}
    assert scores.keys() == {1, 2, 3}
    for step in (1, 2):
        assert scores[step] == pytest.approx(losses[step], rel=1e-12)
    assert [step for step, _ in read(tmp_path / "run/eval")["loss"]] == [1, 2, 3]


@pytest.mark.slow
def test_texts_describe_the_run(folder):
    ((_, layout),) = read_texts(folder / "run/train", "layout")
    assert "- mesh `rows:2,cols:2,cores:2`: 8 processors, on " in layout
    assert "- layout `x:rows,y:cols,batch:cores`" in layout
    assert "1 x 8 x 8 x 16 x 1\n" in layout
    ((_, config),) = read_texts(folder / "run/train", "config")
    assert f"```\n{(folder / 'run/config.gin').read_text()}\n```" == config


@pytest.mark.slow
def test_a_held_out_case_is_drawn(folder):
    images = open_events(folder / "run/eval").Images("case 0")
    assert [image.step for image in images] == [2, 4, 5]
    assert images[0].encoded_image_string.startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_curves_are_drawn(folder):
    assert (folder / "run/progress.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_best_checkpoint_scores_what_it_scored(folder, monkeypatch):
    """Scores on the grid of the records, while `evaluate` scores in the voxels of each volume."""
    scores = {int(row["step"]): row for row in read_rows(folder / "run/eval/scores.csv")}
    best = max(scores, key=lambda step: float(scores[step]["liver"]))
    assert [path.name for path in (folder / "run/best").glob("*.index")] == [f"ckpt-{best}.index"]
    found = {}

    def on_the_grid(kind, images, network, own, provenance):
        own = kind.segmenter
        scored = HeldOutRecords(Records(own.window), False).open(folder / "held_out", own.sampling.grid)(network)
        found.update(scored[0])

    monkeypatch.setattr(evaluating, "evaluate_images", on_the_grid)
    arguments = [
        "evaluate",
        "--model_dir",
        folder / "run",
        "--input_dir",
        folder / "held_out_cases",
        "--output_dir",
        "unused",
    ]
    for checkpoint, step in ((["--checkpoint", "best"], best), ([], 5)):
        assert run(*arguments, *checkpoint) == 0
        assert {name: str(value) for name, value in found.items()} == {name: scores[step][name] for name in found}


def test_resuming_without_the_held_out_cases_warns(tmp_path_factory, tmp_path, caplog):
    data = tiny_runs.volumes(tmp_path_factory)
    shutil.copytree(data / "run", tmp_path / "run")
    (tmp_path / "run/eval").mkdir()  # as in a run with held-out cases
    assert run("train", "--data_dir", data / "records", "--model_dir", tmp_path / "run", "--num_steps", 4) == 0
    assert "held-out cases are no longer scored. Fix: give eval_dir to score them" in caplog.text


def test_a_run_without_held_out_cases_has_no_best_checkpoint(tmp_path_factory, tmp_path, capsys):
    data = tiny_runs.volumes(tmp_path_factory)
    volume = data / "cases/volume-0.nii.gz"
    predict = ["predict", "--model_dir", data / "run", "--input", volume, "--output", tmp_path / "out.nii.gz"]
    assert run(*predict, "--checkpoint", "best") == 1
    assert capsys.readouterr().err == (
        f"mtf-imaging: {data}/run: this run has no best checkpoint, because training evaluated no held-out cases. "
        "Fix: train with an eval_dir or a fold, or use the last checkpoint, with checkpoint='last'.\n"
        "On the command line: --checkpoint.\n"
    )
    assert run(*predict, "--checkpoint", "last") == 0


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            ["--gin.train.monitor='lesoin'"],
            "mtf-imaging: monitor = 'lesoin' is not a measure of the evaluation, which has liver, lesion. "
            "Did you mean 'lesion'? Fix: choose one of them.\n"
            """On the command line: --gin.train.monitor='"lesion"'.\n""",
        ),
        (["--gin.train.eval_every=0"], "eval_every must be an int of at least 1, not 0"),
        (["--eval_dir", "nowhere"], "nowhere: this folder of records does not exist"),
    ],
)
def test_errors_are_reported_before_anything_is_built(tmp_path_factory, tmp_path, change, text, capsys):
    data, model_dir = tiny_runs.volumes(tmp_path_factory), tmp_path / "new"
    assert run(*train_volumes(data, model_dir), "--eval_dir", data / "records", *STEPS, *change) in (1, 2)
    assert text in capsys.readouterr().err
    assert not model_dir.exists()


class OwnEvaluation:
    measures = ("lesion", "sharpness")

    def open(self, eval_dir, sizes):
        return lambda predict: ({"lesion": float(predict(np.zeros(sizes)).sum()), "sharpness": 0.5}, {})


def open_own(evaluation, folder, monitor="sharpness"):
    data = TrainingData("data", data_set=object(), eval_dir=folder, evaluation=evaluation)
    return open_held_out(data, SimpleNamespace(batch_size=2, sizes=(4, 4), task=None), monitor)


class WithLoss(OwnEvaluation):
    def loss_batches(self, eval_dir, *, batch_size, sizes):
        return [(eval_dir, batch_size, sizes)]


def test_a_user_defined_evaluation_can_define_loss_batches(tmp_path):
    assert open_own(WithLoss(), tmp_path).batches() == [(tmp_path, 2, (4, 4))]
    wrong = WithLoss()
    wrong.loss_batches = lambda eval_dir: []
    with pytest.raises(
        ConfigError, match=r"WithLoss, which cannot be called as evaluation\.loss_batches\(eval_dir, batch"
    ):
        open_own(wrong, tmp_path)
    wrong.measures = ("lesion", "sharpness", "loss")
    assert open_own(wrong, tmp_path).batches is None, "the evaluation has its own loss"


def test_a_custom_data_set_needs_a_custom_evaluation(tmp_path):
    with pytest.raises(ConfigError, match=r"the data set is of class object, .* Fix: give a custom evaluation"):
        open_own(None, tmp_path)
    held_out = open_own(OwnEvaluation(), tmp_path)
    assert held_out.evaluate(lambda image: image + 1) == ({"lesion": 16.0, "sharpness": 0.5}, {})
    assert held_out.batches is None
    with pytest.raises(ConfigError, match="'liver' is not a measure of the evaluation, which has lesion, sharpness"):
        open_own(OwnEvaluation(), tmp_path, monitor="liver")
    with pytest.raises(
        ConfigError, match=r"of class object, which cannot be called as evaluation\.open\(eval_dir, sizes\)"
    ):
        open_own(object(), tmp_path)
