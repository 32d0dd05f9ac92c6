"""Every Dice score in the documentation is a mean and a range over at least three seeds, from the stored runs."""

import json

import pytest

from benchmarks import demo_scores, figures, resolution_study
from benchmarks.learning import table as learning_table
from benchmarks.tables import read_rows

OVER = ("per_case", "global")


@pytest.mark.parametrize("name", figures.PAGES)
def test_the_table_of_a_page_matches_the_stored_runs(name):
    for path in figures.PAGES[name]:
        page = path.read_text()
        assert figures.with_table(page, name, figures.tables()[name]) == page


def test_every_contender_has_three_seeds():
    seeds = {}
    for row in read_rows(figures.FIGURES / learning_table.CHOICES):
        seeds.setdefault(row["contender"], set()).add(row["seed"])
    assert not {contender for contender, found in seeds.items() if len(found) < 3}


@pytest.mark.parametrize("name", ["demo", *figures.RESOLUTION])
def test_every_score_has_three_seeds(name):
    runs = resolution_study.read(figures.FIGURES / f"{name}.csv")
    for resolution in resolution_study.resolutions(runs):
        assert len({run["seed"] for run in runs if run["resolution"] == resolution}) >= 3


def test_every_voxel_size_has_three_seeds():
    for name in figures.SPACINGS.values():
        assert len(learning_table.read(figures.FIGURES / name)[learning_table.BASELINE]) >= 3


def test_the_scores_of_the_demo_are_read_from_its_runs(tmp_path):
    for seed, liver, lesion in ((10, 0.5, 0.25), (9, 0.75, 0.5), (2, 1.0, 0.75)):
        scores = {"liver": {"dice": liver}, "lesion": {"dice": lesion}}
        official = {
            f"{mask}_dice_{over}": dice for mask, dice in (("liver", liver), ("lesion", lesion)) for over in OVER
        }
        folder = tmp_path / f"64_seed_{seed}/evaluation"
        folder.mkdir(parents=True)
        (folder / "metrics.json").write_text(json.dumps({"official": official, "cases": {"3": scores, "11": scores}}))
    rows = demo_scores.read_runs(tmp_path)
    assert [row[:2] for row in rows[:4]] == [["2", "case 3"], ["2", "case 11"], ["2", "per case"], ["2", "global"]]
    demo_scores.write_scores(rows, tmp_path / "scores.csv")
    table = demo_scores.scores_table(tmp_path / "scores.csv").splitlines()
    assert table[0] == "| Dice, 3 seeds | liver | lesion |"
    assert table[3] == "| case 11 | 0.750 (0.500 to 1.000) | 0.500 (0.250 to 0.750) |"
    assert len(table) == 6


def test_a_page_without_a_place_for_the_table():
    page = "a\n<!-- figures: x -->\nold\n<!-- figures end -->\nb"
    assert figures.with_table(page, "x", "new") == page.replace("old", "new")
    with pytest.raises(ValueError, match="one table between '<!-- figures: y -->' and '<!-- figures end -->'"):
        figures.with_table(page, "y", "new")
    two = "<!-- figures: x -->\n<!-- figures end -->\n" + page  # the first place has no line for the table
    assert figures.with_table(two, "x", "new") == two.replace("old", "new")
