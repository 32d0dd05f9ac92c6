"""The table, the CSV file and the figure of the study of context."""

import csv
import dataclasses

import pytest

from mtf_imaging.evaluation.context_study import read_run, read_study, study_text, write_study


def result(seed, first, last, seconds=40.0):
    """Returns the stored result of a training whose Dice rises from `first` to `last`."""
    points = [
        {"step": step, "cpu_seconds": spent, "dice": {"left": dice, "right": round(dice - 0.1, 4)}}
        for step, spent, dice in ((10, seconds / 4, first), (20, seconds / 2, first), (80, seconds, last))
    ]
    costs = {"planned_bytes": 30 * 2**20, "peak_bytes": 2**30, "seconds_per_case": 0.25}
    return {"seed": seed, "at_steps": points[1], "at_budget": points[2], "course": points, **costs}


@pytest.fixture
def runs():
    patches = [read_run("side", "patch_32", "patches", result(seed, 0.4, 0.5)) for seed in (1, 2)]
    return [*patches, read_run("side", "whole", "whole volumes", result(1, 0.6, 0.95))]


def test_a_table_compares_equal_steps_with_equal_time(runs):
    head, _, patches, whole = study_text(runs).split("\n\n")[1].splitlines()
    assert head.startswith("| contender | Dice after 20 steps | Dice in equal CPU time | left | right | steps |")
    assert patches == (
        "| patches | 0.350 (0.350 to 0.350) | 0.450 (0.450 to 0.450) | 0.500 | 0.400 | 80 | never | 30 MiB | 0.25 |"
    )
    assert whole == "| whole volumes | 0.550 | 0.900 | 0.950 | 0.850 | 80 | 40 | 30 MiB | 0.25 |"


def test_the_time_to_a_goal_counts_the_seeds_that_reach_it(runs):
    late = dataclasses.replace(runs[2], seed=2, course=runs[0].course)
    assert "| 40 (1 of 2 seeds) |" in study_text([*runs, late])


def test_the_files_have_every_score_and_mark_the_budgets(runs, tmp_path):
    write_study(tmp_path, runs)
    with open(tmp_path / "context.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * 3 * 2
    assert [(row["step"], row["budget"]) for row in rows[::2][:3]] == [("10", ""), ("20", "steps"), ("80", "cpu")]
    assert (tmp_path / "context.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "context.md").read_text() == study_text(runs) + "\n"


def test_a_stored_study_gives_the_same_table(runs, tmp_path):
    write_study(tmp_path, runs)
    assert read_study(tmp_path / "context.csv") == runs
