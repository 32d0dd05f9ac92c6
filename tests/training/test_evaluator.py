"""Evaluation during training: a killed or stopped run ends with the scores of an uninterrupted run."""

import itertools
import logging
import math

import numpy as np
import pytest
import tensorflow as tf

from mtf_imaging.errors import ConfigError, Interrupted, TrainingError
from mtf_imaging.inference.network import of_function
from mtf_imaging.training.checkpoints import files as checkpoint_files
from mtf_imaging.training.checkpoints.best import BestCheckpoint
from mtf_imaging.training.checkpoints.checkpoints import Checkpoints
from mtf_imaging.training.checkpoints.weights_folder import Weights
from mtf_imaging.training.observers.evaluator import Evaluator, Monitoring, check_measure
from mtf_imaging.training.observers.event_file import EventFile
from mtf_imaging.training.observers.step_table import LossLog, StepTable
from mtf_imaging.training.optimizers import Adam
from tests.scores import read_rows
from tests.training import linear
from tests.training.linear import Killed, killed_at
from tests.training.test_events import open_events, read

CASES = 3
BEST = 4  # the step with the best score of `evaluate` among steps 2, 4, 6, 8 and 9


def evaluate(predict):
    """Returns measures of the weights; the first rises and then falls during training."""
    outputs = [predict(np.full(8, case + 1.0)) for case in range(CASES)]
    size = float(np.mean(outputs))
    return {"near": -abs(size - 12.0), "size": size}, {"case 0": np.zeros((4, 4, 3), np.uint8)}


def run(
    folder,
    num_steps=9,
    *,
    batches=linear.batches,
    evaluate=evaluate,
    every=2,
    best_by="near",
    stop=lambda: None,
    loss=None,
    average_decay=None,
):
    """Trains a new program in the folder, as a new process would; evaluates and saves at different steps."""
    program = linear.program(Adam(0.05), average_decay=average_decay)

    def predict(image):
        return image @ np.abs(program.variables["linear/weights"].numpy())

    def observers(checkpoints):
        evaluator = Evaluator(
            folder / "eval",
            evaluate,
            of_function(predict, 8, 1),
            Monitoring(best_by, every, num_steps),
            checkpoints=checkpoints,
            best=BestCheckpoint(folder / "best", program),
            stop=stop,
            loss=loss,
        )
        return [LossLog(folder / "losses.csv"), evaluator]

    return linear.run(folder, num_steps, program, observers, batches, stop=stop)


def rows(folder):
    return read_rows(folder / "eval/scores.csv")


def best_weights(folder):
    reader = tf.train.load_checkpoint(str(folder / "best" / f"ckpt-{checkpoint_files.steps(folder / 'best')[-1]}"))
    return reader.get_tensor("program/_masters/_named/linear.Sweights/.ATTRIBUTES/VARIABLE_VALUE")


def check_same(folder, whole):
    """Checks that scores, losses, events and the best checkpoint equal those of an uninterrupted run."""
    for name in ("eval/scores.csv", "losses.csv"):
        assert (folder / name).read_text() == (whole / name).read_text()
    assert read(folder / "eval") == read(whole / "eval")
    assert checkpoint_files.steps(folder / "best") == checkpoint_files.steps(whole / "best")
    np.testing.assert_array_equal(best_weights(folder), best_weights(whole))
    leftovers = {path.name for path in (folder / "best").iterdir()} ^ {path.name for path in (whole / "best").iterdir()}
    assert not leftovers


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    run(folder)
    return folder


def test_averages_are_evaluated_and_the_weights_are_trained_and_saved(whole, tmp_path):
    program = run(tmp_path, average_decay=0.9)
    weights, average = (program.variables[f"linear/weights{end}"].numpy() for end in ("", "/average"))
    assert (tmp_path / "losses.csv").read_text() == (whole / "losses.csv").read_text()
    size = np.mean([np.full(8, case + 1.0) @ np.abs(average) for case in range(CASES)])
    assert float(rows(tmp_path)[-1]["size"]) == pytest.approx(size, rel=1e-5)
    assert rows(tmp_path)[-1]["size"] != rows(whole)[-1]["size"]
    saved = Weights(str(tmp_path / "ckpt-9"))
    names = ["linear/weights", "linear/weights/average"]
    for (_, value), want in zip(saved.read(names), (weights, average), strict=True):
        np.testing.assert_array_equal(value, want)
    # The best checkpoint contains the weights of its step, from which the run could resume.
    best = checkpoint_files.steps(tmp_path / "best")[-1]
    again = linear.program(Adam(0.05))
    for batch in linear.take(best):
        again(**batch)
    np.testing.assert_array_equal(best_weights(tmp_path), again.variables["linear/weights"])


def test_scores_and_events_of_every_few_steps_and_the_last_one(whole):
    scores = rows(whole)
    assert [int(row["step"]) for row in scores] == [2, 4, 6, 8, 9]
    shown = read(whole / "eval")
    for name in ("near", "size"):
        assert shown[name] == [(int(row["step"]), np.float32(row[name])) for row in scores]
    assert [image.step for image in open_events(whole / "eval").Images("case 0")] == [2, 4, 6, 8, 9]


def test_the_score_is_that_of_the_weights_after_the_step(whole):
    program = linear.program(Adam(0.05))
    for batch in linear.take(6):
        program(**batch)
    (measured,) = (row for row in rows(whole) if row["step"] == "6")
    weights = np.abs(program.variables["linear/weights"].numpy())
    assert float(measured["size"]) == np.mean([np.full(8, case + 1.0) @ weights for case in range(CASES)])


def test_the_best_checkpoint_is_kept_beside_the_last(whole, tmp_path):
    scores = {int(row["step"]): float(row["near"]) for row in rows(whole)}
    assert max(scores, key=scores.get) == BEST, "the test needs a best checkpoint that is not the last"
    assert {path.name for path in (whole / "best").iterdir()} == {
        "checkpoint",
        f"ckpt-{BEST}.index",
        f"ckpt-{BEST}.data-00000-of-00001",
    }
    np.testing.assert_array_equal(best_weights(whole), run(tmp_path, BEST).variables["linear/weights"])
    assert checkpoint_files.steps(whole) == [6, 8, 9]


# The call at which a run is killed: (owner, function, number of the call).
KILLS = [
    (EventFile, "scalars", 1),
    (EventFile, "picture", 3),
    (StepTable, "append", 4),  # rows of losses.csv count, too: this call writes the row of step 2
    (StepTable, "append", 6),
    (StepTable, "append", 9),
    (StepTable, "append", 14),  # the last row
    (BestCheckpoint, "keep", 1),  # the call at the start of the run
    (BestCheckpoint, "keep", 3),
    (BestCheckpoint, "keep", 6),
    (Checkpoints, "save", 1),
    (Checkpoints, "save", 3),
    (Checkpoints, "save", 4),
    (checkpoint_files, "delete_old", 2),  # the best checkpoint is complete
    (checkpoint_files, "delete_old", 5),
    (checkpoint_files, "delete_others", 3),
]


@pytest.mark.slow
@pytest.mark.parametrize(("owner", "name", "number"), KILLS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_a_run_killed_anywhere_equals_an_uninterrupted_run(whole, tmp_path, monkeypatch, owner, name, number):
    real, calls = getattr(owner, name), []

    def kill(*args, **kwargs):
        calls.append(name)
        if len(calls) == number:
            raise Killed
        return real(*args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, kill)
        with pytest.raises(Killed):
            run(tmp_path)
    run(tmp_path)
    check_same(tmp_path, whole)


@pytest.mark.parametrize("calls", [1, 5, 8, 14])
def test_killed_within_an_evaluation(whole, tmp_path, calls):
    left = iter(range(calls))

    def killed(predict):
        def one(image):
            if next(left, None) is None:
                raise Killed
            return predict(image)

        return evaluate(one)

    with pytest.raises(Killed):
        run(tmp_path, evaluate=killed)
    run(tmp_path)
    check_same(tmp_path, whole)


@pytest.mark.slow
def test_killed_between_evaluations_again_and_again(whole, tmp_path):
    for step in (1, 3, 5, 5, 7):
        with pytest.raises(Killed):
            run(tmp_path, batches=killed_at(step))
    run(tmp_path)
    check_same(tmp_path, whole)


@pytest.mark.parametrize("calls", [2, 7, 13])  # in the first evaluation, in a later one, in the last
def test_a_stopped_evaluation_is_repeated_when_the_run_resumes(whole, tmp_path, caplog, calls):
    cases = []

    def counted(predict):
        def one(image):
            cases.append(image)
            return predict(image)

        return evaluate(one)

    caplog.set_level(logging.INFO)
    with pytest.raises(Interrupted, match=r"asked to: stopped after [269] steps"):
        run(tmp_path, evaluate=counted, stop=lambda: "asked to" if len(cases) >= calls else None)
    assert len(cases) == calls, "no further case is computed"
    assert "the evaluation is postponed until the run resumes: asked to" in caplog.text
    assert len(rows(tmp_path)) == calls // CASES
    run(tmp_path)
    check_same(tmp_path, whole)


def stop_at(number):
    """Returns a stop function that asks the run to stop at its `number`-th call."""
    counter = itertools.count(1)
    return lambda: "asked to" if next(counter) >= number else None


def test_a_repeated_evaluation_can_be_stopped_too(whole, tmp_path):
    for number in (4, 2, 1):  # before step 0, step 1, and cases 0 and 1; then before the cases again
        with pytest.raises(Interrupted, match="stopped after 2 steps"):
            run(tmp_path, stop=stop_at(number))
        assert not rows(tmp_path)
    run(tmp_path)
    check_same(tmp_path, whole)


def test_the_held_out_loss_is_logged_like_the_training_loss(whole, tmp_path):
    """The run begins without a held-out loss, and resumes with one."""
    asked = []

    def loss(check_stop):
        check_stop()
        asked.append(0.1 + len(asked))
        return asked[-1]

    run(tmp_path, 5)
    run(tmp_path, loss=loss)
    scores = rows(tmp_path)
    assert [row["loss"] for row in scores] == ["nan", "nan", "nan", "0.1", "1.1", "2.1"]
    assert [int(row["step"]) for row in scores] == [2, 4, 5, 6, 8, 9]
    near = {row["step"]: row["near"] for row in scores}
    assert near.items() >= {row["step"]: row["near"] for row in rows(whole)}.items()
    assert read(tmp_path / "eval")["loss"] == [(6, np.float32(0.1)), (8, np.float32(1.1)), (9, np.float32(2.1))]


def test_a_stopped_run_computes_the_loss_when_it_resumes(tmp_path):
    stopped = []

    def loss(check_stop):
        stopped.append(True)
        check_stop()
        raise AssertionError("the loss was computed after the stop")

    with pytest.raises(Interrupted, match="stopped after 2 steps"):
        run(tmp_path, loss=loss, stop=lambda: "asked to" if stopped else None)
    assert not rows(tmp_path)


def test_a_longer_run_resumes_a_finished_one(whole, tmp_path):
    run(tmp_path, 6)
    run(tmp_path, 9)
    check_same(tmp_path, whole)


def test_a_loss_that_is_not_finite_is_reported_and_not_evaluated(tmp_path):
    def batches(start):
        for step, batch in enumerate(linear.batches(start), start):
            batch["image"][0, 0] = np.inf if step == 3 else batch["image"][0, 0]
            yield batch

    with pytest.raises(TrainingError, match="step 3: the loss is"):
        run(tmp_path, batches=batches)
    assert [row["step"] for row in rows(tmp_path)] == ["2"]


def test_an_unknown_measure_is_reported():
    check_measure("lesion", ("liver", "lesion"))
    with pytest.raises(ConfigError) as error:
        check_measure("lesoin", ("liver", "lesion"))
    assert str(error.value) == (
        "monitor = 'lesoin' is not a measure of the evaluation, which has liver, lesion. Did you mean 'lesion'? "
        "Fix: choose one of them."
    )
    assert error.value.settings == ("monitor",)


def test_the_earlier_of_equal_scores_is_best_and_nan_is_never(tmp_path):
    program = linear.program(Adam(0.05))
    best = BestCheckpoint(tmp_path, program)
    scores, kept = {}, []
    for step, (batch, score) in enumerate(zip(linear.take(5), [math.nan, 0.5, 0.5, math.nan, 0.75]), start=1):
        program(**batch)
        scores[step] = score
        kept.append(best.keep(scores))
        assert checkpoint_files.steps(tmp_path) == [step for step in kept[-1:] if step]
    assert kept == [None, 2, 2, 2, 5]


def test_a_best_checkpoint_after_the_last_step_is_deleted(tmp_path):
    """The last checkpoints were deleted, so the run has not reached the step of the best checkpoint."""
    run(tmp_path, 3)
    assert checkpoint_files.steps(tmp_path / "best") == [3]
    checkpoint_files.delete_others(tmp_path, 2)
    run(tmp_path, 4, evaluate=lambda predict: ({"near": -99.0, "size": 0.0}, {}))
    assert [row["step"] for row in rows(tmp_path)] == ["2", "4"]
    assert checkpoint_files.steps(tmp_path / "best") == [2]
