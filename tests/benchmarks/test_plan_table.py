"""The page on plans shows what the planners of this package and of nnU-Net choose for ten data sets."""

import json

import pytest

from benchmarks.figures import with_table
from benchmarks.plan_table import DATA_SETS, NAME, PAGE, STORED, row, table
from benchmarks.tables import markdown

FAST = ("tiny MR", "anisotropic MR, 2 channels")


@pytest.mark.parametrize("name", FAST)
def test_the_page_has_the_row_of_a_data_set(name):
    assert markdown(["data set"], [row(name, json.loads(STORED.read_text()))]).splitlines()[2] in PAGE.read_text()


@pytest.mark.slow
def test_the_table_of_the_page_is_that_of_the_code():
    page = PAGE.read_text()
    assert with_table(page, NAME, table()) == page


def test_the_plans_of_nnunet_are_those_of_the_data_sets():
    plans = json.loads(STORED.read_text())["plans"]
    jobs = json.loads(json.dumps({name: data.job() for name, data in DATA_SETS.items()}))
    assert {name: plan["data"] for name, plan in plans.items()} == jobs
