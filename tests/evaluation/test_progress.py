"""The picture of a run's curves: its tables, when it is drawn, and that a failure does not end the run."""

import logging

import numpy as np
import pytest
from matplotlib.image import imread

from mtf_imaging.evaluation.report import progress
from mtf_imaging.training.observers.step_table import LossLog


@pytest.fixture
def drawn(monkeypatch):
    """The tables of each picture; the pictures themselves are not drawn."""
    tables = []
    monkeypatch.setattr(progress, "draw", lambda path, train, held_out, **options: tables.append((train, held_out)))
    return tables


def observers(folder, **options):
    options = {"every": [2, 3], "num_steps": 8, "best_by": "lesion", **options}
    tables = folder / "losses.csv", folder / "eval/scores.csv"
    return LossLog(tables[0]), progress.Progress(folder / progress.NAME, *tables, **options)


def run(steps, log, picture):
    for observer in (log, picture):
        observer.begin(steps[0])
    for step in steps:
        for observer in (log, picture):
            observer.after(step, {"loss": 2.0 - step / 10, "lesion": step / 10}, ["1", "2"], 1.0, 0.0)
    for observer in (log, picture):
        observer.close()


def test_it_is_drawn_after_checkpoints_and_evaluations_and_at_the_end(drawn, tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "_SHARE", np.inf)
    run(range(6), *observers(tmp_path))
    assert [train["step"].tolist()[-1] for train, _ in drawn] == [2, 3, 4, 5]
    np.testing.assert_array_equal(drawn[-1][0]["loss"], [2.0, 1.9, 1.8, 1.7, 1.6, 1.5])
    assert set(drawn[-1][0]) == {"step", "loss", "lesion"}
    run([4, 5, 6, 7], *observers(tmp_path))  # a run resumed two steps earlier draws the curves of all steps
    np.testing.assert_array_equal(drawn[-1][0]["step"], range(8))


def test_drawing_takes_at_most_its_share_of_the_run(drawn, tmp_path, monkeypatch):
    times = iter([0.0, 100.0, 101.0, 120.0, *[9000.0] * 9])  # check, start and end of drawing; second check
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(times))
    run(range(5), *observers(tmp_path, every=[2]))
    assert [train["step"].tolist()[-1] for train, _ in drawn] == [
        2,
        4,
    ]  # the second picture is drawn because the run ends


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1, 2, 40, 3000])
def test_pictures_of_short_and_long_runs(steps, tmp_path):
    train = {"step": np.arange(steps, dtype=float), "loss": np.exp(-np.arange(steps)), "own": np.arange(steps) * -1.0}
    held_out = {"step": np.array([1.0, 2.0]), "liver": np.array([0.5, np.nan])}
    for table in (held_out, held_out | {"loss": np.array([np.nan, 0.5])}, {}):
        options = {"num_steps": 3000, "best_by": "liver"}
        progress.draw(tmp_path / "progress.png", train, table, **options)
        height, width, _ = imread(tmp_path / "progress.png").shape
        assert (height, width) == (506, 1210)
    assert [path.name for path in tmp_path.iterdir()] == ["progress.png"]


def test_the_held_out_loss_is_drawn_with_the_training_loss(tmp_path):
    train = {"step": np.arange(9.0), "loss": np.linspace(1.0, 0.5, 9)}
    orange = np.array([0xC7, 0x77, 0x00]) / 255
    for held_out, is_drawn in (({}, False), ({"step": np.array([4.0, 8.0]), "loss": np.array([0.9, 0.8])}, True)):
        progress.draw(tmp_path / "progress.png", train, held_out, num_steps=9, best_by="liver")
        pixels = imread(tmp_path / "progress.png")[..., :3]
        assert (np.abs(pixels - orange).max(axis=-1) < 0.01).any() == is_drawn


def test_a_loss_that_is_not_finite_is_a_gap(tmp_path):
    train = {"step": np.arange(3.0), "loss": np.array([1.0, np.nan, np.inf])}
    progress.draw(tmp_path / "progress.png", train, {}, num_steps=3, best_by="lesion")
    np.testing.assert_array_equal(progress.running_mean(np.array([np.nan, 1.0, np.nan, np.nan]), 1)[1], 1.0)
    assert np.isnan(progress.running_mean(np.array([np.nan, 1.0, np.nan, np.nan]), 2)[2])


def test_tables_may_be_missing_empty_or_incomplete(tmp_path):
    path = tmp_path / "losses.csv"
    assert progress.read_table(path) == {}
    path.write_text("")
    assert progress.read_table(path) == {}
    path.write_text("step,loss,cases\n0,1.5,3 4\n1,nan,5\n2,0.")  # the last row is incomplete
    table = progress.read_table(path)
    np.testing.assert_array_equal(table["loss"], [1.5, np.nan])
    assert table.keys() == {"step", "loss"}


def test_a_run_continues_if_the_picture_cannot_be_written(tmp_path, caplog, monkeypatch):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device", "progress.png")

    monkeypatch.setattr(progress, "draw", full)
    with caplog.at_level(logging.WARNING):
        run(range(4), *observers(tmp_path))
    assert "progress.png: the picture could not be written: [Errno 28] No space left on device" in caplog.text


def test_a_run_without_steps_draws_nothing(drawn, tmp_path):
    log, picture = observers(tmp_path)
    log.begin(0)
    picture.close()
    log.close()
    assert not drawn
