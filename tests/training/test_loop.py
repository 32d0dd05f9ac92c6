"""The training loop: an interrupted run that resumes equals an uninterrupted run."""

import logging

import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.errors import TrainingError
from mtf_imaging.training.checkpoints.checkpoints import Checkpoints
from mtf_imaging.training.loop import train
from mtf_imaging.training.observers.step_table import LossLog
from mtf_imaging.training.optimizers import SGD, Adam
from mtf_imaging.training.step import TrainingStep
from tests.scores import read_losses, read_rows
from tests.training import linear
from tests.training.linear import Killed, killed_at


def run(folder, num_steps, every=3, batches=linear.batches, optimizer=None, **kwargs):
    program = linear.program(optimizer or Adam(0.05), task=linear.Linear(dropout_rate=0.4), **kwargs)
    return linear.run(folder, num_steps, program, lambda _: [LossLog(folder / "losses.csv")], batches, every)


def state(program):
    return {name: variable.numpy() for name, variable in program.variables.items()} | {"step": program.step.numpy()}


def assert_same(first, second):
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)


@pytest.mark.slow
def test_a_killed_and_restarted_run_equals_an_uninterrupted_run(tmp_path, caplog):
    whole = run(tmp_path / "whole", 10)
    for step in (2, 5, 8):  # before the first checkpoint, and between others
        with pytest.raises(Killed):
            run(tmp_path / "broken", 10, batches=killed_at(step))
    with caplog.at_level(logging.INFO):
        broken = run(tmp_path / "broken", 10)
    assert "resuming from step 6" in caplog.text
    assert_same(state(whole), state(broken))
    assert (tmp_path / "whole/losses.csv").read_text() == (tmp_path / "broken/losses.csv").read_text()


def test_a_longer_run_resumes_a_finished_one(tmp_path, caplog):
    run(tmp_path / "once", 7)
    run(tmp_path / "twice", 4)
    run(tmp_path / "twice", 7)
    assert (tmp_path / "once/losses.csv").read_text() == (tmp_path / "twice/losses.csv").read_text()
    with caplog.at_level(logging.INFO):
        run(tmp_path / "twice", 7)
    assert "all 7 steps are done, so there is nothing to train" in caplog.text


def test_a_run_resumes_under_another_layout_with_the_same_losses(tmp_path):
    run(tmp_path / "one", 8)
    run(tmp_path / "two", 4)
    run(tmp_path / "two", 8, mesh_shape="rows:4", layout="x:rows")
    one, two = (read_losses(tmp_path / name) for name in ("one", "two"))
    np.testing.assert_allclose(one, two, rtol=1e-12)


def test_losses_are_written_in_full_precision_with_their_cases(tmp_path):
    run(tmp_path, 2)
    rows = read_rows(tmp_path / "losses.csv")
    assert [row["step"] for row in rows] == ["0", "1"]
    assert rows[1].keys() == {"step", "loss", "error", "cases"}
    assert rows[1]["cases"] == "1a 1b"
    program = linear.program(Adam(0.05), task=linear.Linear(dropout_rate=0.4))
    assert [float(row["loss"]) for row in rows] == [float(program(**batch)["loss"]) for batch in linear.take(2)]


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_last_checkpoint(tmp_path):
    def batches(start):
        for step, batch in enumerate(linear.batches(start), start):
            batch["image"] = batch["image"] + (np.inf if step == 7 else 0)
            yield batch

    text = r"step 7: the loss is (inf|nan) on cases 7a, 7b\. Training stops\. .*ckpt-6\. Fix: lower the learning rate"
    with pytest.raises(TrainingError, match=text):
        run(tmp_path, 10, batches=batches)
    assert sorted(path.name for path in tmp_path.glob("*.index")) == ["ckpt-3.index", "ckpt-6.index"]
    run(tmp_path, 10)  # with valid images, the run resumes
    assert np.isfinite(read_losses(tmp_path)).all()


@pytest.mark.parametrize("parts", [1, 2])
def test_a_gradient_that_is_not_finite_stops_the_run_before_its_weights_are_saved(tmp_path, parts):
    """The loss is finite, but not its gradient, because the slope of a square root at 0 is infinite."""

    class Steep(linear.Linear):
        def loss(self, image, target):
            loss, measures = super().loss(image, target)
            return loss + mi.mtf.sqrt(loss * 0.0), measures

        def inputs(self, batch_size, sizes, dtype, labels):
            return super().inputs(batch_size)

        def predict(self, image):
            raise NotImplementedError

    described = TrainingStep(Steep(), SGD(0.1, clip_norm=1.0), (8,), 2, parts)
    step = described.build()
    options = {"batches": lambda start: described.split(linear.batches(start)), "num_steps": 2, "progress": False}
    options["checkpoints"] = Checkpoints(tmp_path, step.program, 1)
    with pytest.raises(
        TrainingError, match=r"step 0: the norm of the gradient is (inf|nan) on cases 0a, 0b\. Training st"
    ):
        train(program=step.program, step=step, **options)
    assert not list(tmp_path.glob("*.index"))


def test_weights_that_overflow_while_the_loss_is_still_finite_are_not_saved(tmp_path):
    with pytest.raises(TrainingError, match="not finite after step 1; this state is not saved"):
        run(tmp_path, 3, every=1, optimizer=SGD(float("inf")))
    assert not list(tmp_path.glob("*.index"))


def test_a_damaged_last_checkpoint_costs_only_the_steps_since_the_one_before(tmp_path):
    whole = run(tmp_path / "whole", 8)
    run(tmp_path / "damaged", 6)
    (tmp_path / "damaged/ckpt-6.data-00000-of-00001").write_bytes(b"")
    assert_same(state(whole), state(run(tmp_path / "damaged", 8)))
    assert read_losses(tmp_path / "whole") == read_losses(tmp_path / "damaged")
