"""Evaluation while training: a run that is killed or stopped anywhere ends with the scores of one that never was."""

import csv
import itertools
import logging
import math

import numpy as np
import pytest
import tensorflow as tf

from mtf_imaging.errors import ConfigError, Interrupted, TrainingError
from mtf_imaging.training.checkpoints import files as checkpoint_files
from mtf_imaging.training.checkpoints.best import BestCheckpoint
from mtf_imaging.training.checkpoints.checkpoints import Checkpoints
from mtf_imaging.training.loop import train
from mtf_imaging.training.observers.evaluator import Evaluator, check_measure
from mtf_imaging.training.observers.event_file import EventFile
from mtf_imaging.training.observers.loss_log import LossLog
from mtf_imaging.training.observers.step_table import StepTable
from mtf_imaging.training.optimizers import Adam
from tests.training import linear
from tests.training.test_events import open_events, read
from tests.training.test_loop import Killed, killed_at

CASES = 3
BEST = 4  # of the evaluations after steps 2, 4, 6, 8, 9, by `evaluate`


def evaluate(predict):
    """Measures of the weights: the first goes up and then down."""
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
):
    """Trains a new program on the folder, as a new process would; checkpoints and evaluations are out of step."""
    program = linear.program(Adam(0.05))
    checkpoints = Checkpoints(folder, program, every=3)

    def predict(image):
        return image @ np.abs(program.variables["linear/weights"].numpy())

    evaluator = Evaluator(
        folder / "eval",
        evaluate,
        predict,
        program=program,
        checkpoints=checkpoints,
        best=BestCheckpoint(folder / "best", program),
        best_by=best_by,
        every=every,
        num_steps=num_steps,
        stop=stop,
        loss=loss,
    )
    checkpoints.restore()
    train(
        program=program,
        batches=batches,
        num_steps=num_steps,
        checkpoints=checkpoints,
        observers=[LossLog(folder / "losses.csv"), evaluator],
        stop=stop,
        progress=False,
    )
    return program


def rows(folder):
    with open(folder / "eval/scores.csv", newline="") as file:
        return list(csv.DictReader(file))


def best_weights(folder):
    reader = tf.train.load_checkpoint(str(folder / "best" / f"ckpt-{checkpoint_files.steps(folder / 'best')[-1]}"))
    return reader.get_tensor("program/_masters/_named/linear.Sweights/.ATTRIBUTES/VARIABLE_VALUE")


def check_same(folder, whole):
    """Scores, losses, events and the best checkpoint are those of a run that nobody disturbed."""
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


def test_scores_and_events_of_every_few_steps_and_the_last_one(whole):
    found = rows(whole)
    assert [int(row["step"]) for row in found] == [2, 4, 6, 8, 9]
    shown = read(whole / "eval")
    for name in ("near", "size"):
        assert shown[name] == [(int(row["step"]), np.float32(row[name])) for row in found]
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
    assert max(scores, key=scores.get) == BEST, "the test is of no use if the last is the best"
    assert {path.name for path in (whole / "best").iterdir()} == {
        "checkpoint",
        f"ckpt-{BEST}.index",
        f"ckpt-{BEST}.data-00000-of-00001",
    }
    np.testing.assert_array_equal(best_weights(whole), run(tmp_path, BEST).variables["linear/weights"])
    assert checkpoint_files.steps(whole) == [6, 8, 9]


# What a run is killed before, and when that is called for the how-manieth time.
KILLS = [
    (EventFile, "scalars", 1),
    (EventFile, "picture", 3),
    (StepTable, "append", 4),  # rows of losses.csv are among them: before that of step 2, and so on
    (StepTable, "append", 6),
    (StepTable, "append", 9),
    (StepTable, "append", 14),  # the last
    (BestCheckpoint, "keep", 1),  # it is asked once at the beginning
    (BestCheckpoint, "keep", 3),
    (BestCheckpoint, "keep", 6),
    (Checkpoints, "save", 1),
    (Checkpoints, "save", 3),
    (Checkpoints, "save", 4),
    (checkpoint_files, "delete_old", 2),  # of the best: the checkpoint is whole
    (checkpoint_files, "delete_old", 5),
    (checkpoint_files, "delete_others", 3),
]


@pytest.mark.slow
@pytest.mark.parametrize(("owner", "name", "number"), KILLS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_killed_anywhere_it_ends_as_an_unbroken_run(whole, tmp_path, monkeypatch, owner, name, number):
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


def test_killed_between_evaluations_again_and_again(whole, tmp_path):
    for step in (1, 3, 5, 5, 7):
        with pytest.raises(Killed):
            run(tmp_path, batches=killed_at(step))
    run(tmp_path)
    check_same(tmp_path, whole)


@pytest.mark.parametrize("calls", [2, 7, 13])  # in the first evaluation, in a later one, in the last
def test_told_to_stop_it_leaves_the_evaluation_and_makes_up_for_it(whole, tmp_path, caplog, calls):
    cases = []

    def counted(predict):
        def one(image):
            cases.append(image)
            return predict(image)

        return evaluate(one)

    caplog.set_level(logging.INFO)
    with pytest.raises(Interrupted, match=r"told to: stopped after [269] steps"):
        run(tmp_path, evaluate=counted, stop=lambda: "told to" if len(cases) >= calls else None)
    assert len(cases) == calls, "not one case more than was under way"
    assert "the evaluation is left out, to be made when the run goes on: told to" in caplog.text
    assert len(rows(tmp_path)) == calls // CASES
    run(tmp_path)
    check_same(tmp_path, whole)


def asked(number):
    """Tells a run to stop when it asks for the `number`-th time."""
    counter = itertools.count(1)
    return lambda: "told to" if next(counter) >= number else None


def test_told_to_stop_in_the_evaluation_that_it_makes_up_for(whole, tmp_path):
    for number in (4, 2, 1):  # before step 0, step 1, and cases 0 and 1; then before the cases again
        with pytest.raises(Interrupted, match="stopped after 2 steps"):
            run(tmp_path, stop=asked(number))
        assert not rows(tmp_path)
    run(tmp_path)
    check_same(tmp_path, whole)


def test_the_held_out_loss_is_logged_like_the_training_loss(whole, tmp_path):
    """Also where the run began without one, as runs of earlier releases did."""
    asked = []

    def loss(check_stop):
        check_stop()
        asked.append(0.1 + len(asked))
        return asked[-1]

    run(tmp_path, 5)
    run(tmp_path, loss=loss)
    found = rows(tmp_path)
    assert [row["loss"] for row in found] == ["nan", "nan", "nan", "0.1", "1.1", "2.1"]
    assert [int(row["step"]) for row in found] == [2, 4, 5, 6, 8, 9]
    near = {row["step"]: row["near"] for row in found}
    assert near.items() >= {row["step"]: row["near"] for row in rows(whole)}.items()
    assert read(tmp_path / "eval")["loss"] == [(6, np.float32(0.1)), (8, np.float32(1.1)), (9, np.float32(2.1))]


def test_a_stopped_run_computes_the_loss_when_it_resumes(tmp_path):
    stopped = []

    def loss(check_stop):
        stopped.append(True)
        check_stop()
        raise AssertionError("it went on")

    with pytest.raises(Interrupted, match="stopped after 2 steps"):
        run(tmp_path, loss=loss, stop=lambda: "told to" if stopped else None)
    assert not rows(tmp_path)


def test_a_longer_run_goes_on_from_a_finished_one(whole, tmp_path):
    run(tmp_path, 6)
    run(tmp_path, 9)
    check_same(tmp_path, whole)


def test_a_loss_that_is_not_finite_is_told_as_such_and_not_evaluated(tmp_path):
    def batches(start):
        for step, batch in enumerate(linear.batches(start), start):
            batch["image"][0, 0] = np.inf if step == 3 else batch["image"][0, 0]
            yield batch

    with pytest.raises(TrainingError, match="step 3: the loss is"):
        run(tmp_path, batches=batches)
    assert [row["step"] for row in rows(tmp_path)] == ["2"]


def test_scores_need_the_measure_that_the_best_is_chosen_by():
    check_measure("lesion", ("liver", "lesion"))
    with pytest.raises(ConfigError) as error:
        check_measure("lesoin", ("liver", "lesion"))
    assert str(error.value) == (
        "monitor = 'lesoin' is no measure of the evaluation, which has liver, lesion. Did you mean 'lesion'? "
        "Fix: choose one of them."
    )
    assert error.value.settings == ("monitor",)


def test_of_equal_scores_the_earlier_and_never_one_that_is_no_number(tmp_path):
    program = linear.program(Adam(0.05))
    best = BestCheckpoint(tmp_path, program)
    scores, kept = {}, []
    for step, (batch, score) in enumerate(zip(linear.take(5), [math.nan, 0.5, 0.5, math.nan, 0.75]), start=1):
        program(**batch)
        scores[step] = score
        kept.append(best.keep(scores))
        assert checkpoint_files.steps(tmp_path) == kept[-1:]
    assert kept == [1, 2, 2, 2, 5]


def test_the_best_of_a_run_that_was_taken_back_gives_way(tmp_path):
    """The last checkpoints were deleted, so the best is of a step that the run has not made."""
    run(tmp_path, 3)
    assert checkpoint_files.steps(tmp_path / "best") == [3]
    checkpoint_files.delete_others(tmp_path, 2)
    run(tmp_path, 4, evaluate=lambda predict: ({"near": -99.0, "size": 0.0}, {}))
    assert [row["step"] for row in rows(tmp_path)] == ["2", "4"]
    assert checkpoint_files.steps(tmp_path / "best") == [2]
