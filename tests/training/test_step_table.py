"""A table is rewritten atomically: completely or not at all."""

import errno

import pytest

from mtf_imaging.training.observers.step_table import StepTable, read_rows
from tests.storage import no_file_larger_than

STEPS = 50


@pytest.fixture
def path(tmp_path):
    """Writes a table of 50 rows in a new folder; returns its path."""
    table = StepTable(tmp_path / "run/losses.csv")
    table.begin(0)
    for step in range(STEPS):
        table.append(step, {"loss": 1 / (step + 1)})
    table.close()
    return tmp_path / "run/losses.csv"


def test_a_resumed_run_keeps_the_rows_before_its_first_step(path):
    rows = path.read_text().splitlines()
    table = StepTable(path)
    assert [row["step"] for row in table.begin(3)] == ["0", "1", "2"]
    table.close()
    assert path.read_text().splitlines() == rows[:4]


def test_a_table_that_cannot_be_rewritten_stays_as_it_was(path):
    before = path.read_bytes()
    table = StepTable(path)
    with no_file_larger_than(100), pytest.raises(OSError, match=r"losses\.csv") as raised:
        table.begin(STEPS)
    assert raised.value.errno == errno.EFBIG
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["losses.csv"]


def test_a_new_column_that_cannot_be_added_leaves_the_rows(path):
    before = path.read_bytes()
    table = StepTable(path)
    table.begin(STEPS)
    with no_file_larger_than(100), pytest.raises(OSError, match=r"losses\.csv"):
        table.append(STEPS, {"loss": 0.0, "dice": 1.0})
    table.close()
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["losses.csv"]


def test_names_that_are_not_utf_8_keep_their_bytes(tmp_path):
    table = StepTable(tmp_path / "losses.csv")
    table.begin(0)
    table.append(0, {"loss": 1.0, "cases": "M\udcfcller Größe"})
    table.close()
    assert (tmp_path / "losses.csv").read_bytes() == b"step,loss,cases\n0,1.0,M" + b"\xfcller Gr\xc3\xb6\xc3\x9fe\n"
    assert read_rows(tmp_path / "losses.csv", 1)[0]["cases"] == "M\udcfcller Größe"
