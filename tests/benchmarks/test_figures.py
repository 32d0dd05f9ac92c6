"""Every Dice score in the documentation is a mean and a range over at least three seeds, from the stored runs."""

import pytest

from benchmarks import figures
from benchmarks.learning import table as learning_table
from benchmarks.learning.contenders import ALL
from mtf_imaging.evaluation.resolution_study import read_study, resolutions


@pytest.mark.parametrize("name", figures.PAGES)
def test_the_table_of_a_page_matches_the_stored_runs(name):
    page = figures.PAGES[name].read_text()
    assert figures.with_table(page, name, figures.tables()[name]) == page


@pytest.mark.parametrize("name", [learning_table.RESULTS, figures.EQUAL_STEPS, figures.CHOICES])
def test_every_contender_has_three_seeds(name):
    rows = learning_table.read(figures.FIGURES / name)
    seeds = {contender: {row["seed"] for row in rows if row["contender"] == contender} for contender in ALL}
    assert not {contender: found for contender, found in seeds.items() if 0 < len(found) < 3}


@pytest.mark.parametrize("name", ["demo", "resolution"])
def test_every_score_has_three_seeds(name):
    runs = read_study(figures.FIGURES / f"{name}.csv")
    for resolution in resolutions(runs):
        assert len({run.seed for run in runs if run.resolution == resolution}) >= 3


def test_a_page_without_a_place_for_the_table():
    page = "a\n<!-- figures: x -->\nold\n<!-- figures end -->\nb"
    assert figures.with_table(page, "x", "new") == page.replace("old", "new")
    with pytest.raises(ValueError, match="one table between '<!-- figures: y -->' and '<!-- figures end -->'"):
        figures.with_table(page, "y", "new")
    two = "<!-- figures: x -->\n<!-- figures end -->\n" + page  # the first place has no line for the table
    assert figures.with_table(two, "x", "new") == two.replace("old", "new")
