"""The study of context: the course of a training, its budgets, its table, and runs that are not repeated."""

import dataclasses
import sys

import pytest

from benchmarks.context_study import __main__ as study
from benchmarks.context_study import table
from benchmarks.context_study.contenders import CONTENDERS
from benchmarks.context_study.course import Course
from benchmarks.tables import read_rows


def train(num_steps, budget, seconds, score_seconds=100.0):
    """Returns the course of a training whose steps take some CPU seconds each, and the number of its steps."""
    now = [5.0]

    def score():
        now[0] += score_seconds
        return {"mask": 0.5}

    course = Course(score, num_steps, budget, clock=lambda: now[0])
    course.begin(0)
    step = 0
    while course.stop() is None:
        assert step < 1000
        now[0] += seconds
        course.after(step, {}, [], 0.0, 0.0)
        step += 1
    return course, step


def test_the_budget_of_whole_volumes_is_the_time_of_their_steps():
    course, steps = train(num_steps=20, budget=None, seconds=2.0)
    assert steps == 20
    assert course.at_steps == course.at_budget
    assert (course.at_budget.step, course.at_budget.cpu_seconds) == (20, 40.0)  # without the scores
    assert [point.step for point in course.points] == [*range(2, 21, 2)]


def test_cheap_steps_are_scored_after_equal_steps_and_in_equal_time():
    course, steps = train(num_steps=20, budget=40.0, seconds=0.5)
    assert steps == 80
    assert (course.at_steps.step, course.at_steps.cpu_seconds) == (20, 10.0)
    assert (course.at_budget.step, course.at_budget.cpu_seconds) == (80, 40.0)
    assert len(course.points) <= 12
    assert {10.0, 40.0} < {point.cpu_seconds for point in course.points}


def test_costly_steps_end_with_the_steps():
    course, steps = train(num_steps=20, budget=10.0, seconds=1.0)
    assert steps == 20
    assert (course.at_budget.step, course.at_steps.step) == (10, 20)


def test_patches_are_at_most_as_large_as_the_volume():
    assert CONTENDERS["patch_64"].patch_of((192, 24, 64)) == (64, 24, 64)
    assert CONTENDERS["whole"].patch_of((192, 24, 64)) is None


def result(cases, contender, seed, first, last, seconds=40.0):
    """Returns the stored result of a training whose Dice rises from `first` to `last`."""
    points = [
        {"step": step, "cpu_seconds": spent, "dice": {"left": dice, "right": round(dice - 0.1, 4)}}
        for step, spent, dice in ((10, seconds / 4, first), (20, seconds / 2, first), (80, seconds, last))
    ]
    named = {"cases": cases, "contender": contender, "title": CONTENDERS[contender].title, "seed": seed}
    costs = {"planned_bytes": 30 * 2**20, "peak_bytes": 2**30, "seconds_per_case": 0.25}
    return {**named, "at_steps": points[1], "at_budget": points[2], "course": points, **costs}


@pytest.fixture
def path(tmp_path):
    """Returns the table of two seeds with patches, and one with whole volumes."""
    patches = [result("side", "patch_32", seed, 0.4, 0.5) for seed in (1, 2)]
    table.write(tmp_path / "context.csv", [*patches, result("side", "whole", 1, 0.6, 0.95)])
    return tmp_path / "context.csv"


def test_a_table_compares_equal_steps_with_equal_time(path):
    title, head, _, patches, whole = table.text(table.read(path)).replace("\n\n", "\n").splitlines()
    assert title == "side: equal CPU time is 40 s"
    assert head.startswith("| contender | seeds | Dice after 20 steps | Dice in equal CPU time | left | right | steps ")
    assert patches == (
        "| patches of up to 32 voxels | 2 | 0.350 (0.350 to 0.350) | 0.450 (0.450 to 0.450) | 0.500 | 0.400 | 80 "
        "| never | 30 MiB | 0.25 |"
    )
    assert whole == "| whole volumes, split 2 x 2 | 1 | 0.550 | 0.900 | 0.950 | 0.850 | 80 | 40 | 30 MiB | 0.25 |"


def test_the_time_to_a_goal_counts_the_seeds_that_reach_it(path):
    runs = table.read(path)
    late = dataclasses.replace(runs[2], seed=2, course=runs[0].course)
    assert "| 40 (1 of 2 seeds) |" in table.text([*runs, late])


def test_seeds_below_the_goal_are_bold(path):
    assert table.by_seed(table.read(path), "patch_32").splitlines() == [
        "| cases | seed 1 | seed 2 |",
        "| --- | --- | --- |",
        "| side | **0.350** | **0.350** |",
    ]
    runs = [dataclasses.replace(run, at_steps=run.at_budget) for run in table.read(path)]
    assert table.by_seed(runs, "whole").splitlines()[2] == "| side | 0.900 |"


def test_the_file_has_every_score_and_marks_the_budgets(path):
    rows = read_rows(path)
    assert len(rows) == 3 * 3 * 2
    assert [(row["step"], row["budget"]) for row in rows[::2][:3]] == [("10", ""), ("20", "steps"), ("80", "cpu")]
    assert [(run.at_steps.step, run.at_budget.step, len(run.course)) for run in table.read(path)] == [(20, 80, 3)] * 3
    table.draw(path.with_name("context.png"), table.read(path))
    assert path.with_name("context.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_every_contender_is_scored_at_full_resolution_and_finished_runs_are_kept(tmp_path, monkeypatch, capsys):
    def run(*contenders):
        words = ["--phantoms", "texture", "--num_cases", "2", "--seeds", "1", "--num_steps", "2", "--contenders"]
        monkeypatch.setattr(sys, "argv", ["context_study", "--output_dir", str(tmp_path), *words, *contenders])
        study.main()
        assert capsys.readouterr().out.count("| whole volumes") == 2
        return table.read(tmp_path / "context.csv")

    runs = run("half")
    assert [(one.contender, one.at_steps.step) for one in runs] == [("whole", 2), ("half", 2)]
    assert all(0 <= one.at_steps.mean <= 1 for one in runs)
    again = run("half", "patch_32")
    assert [one.contender for one in again] == ["whole", "patch_32", "half"]
    assert [again[0], again[2]] == runs
    assert not [*tmp_path.glob("texture/*/*_model")]
