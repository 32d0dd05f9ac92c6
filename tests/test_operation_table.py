"""The table of operations in the documentation: names exist, and each row is true, whole and split."""

import re

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from tests import pages
from tests.engine.eager import EagerProgram
from tests.operation_rows import ROWS, SHAPE
from tests.selection.imports import ROOT

PAGE = ROOT / "docs/reference/operations.md"
LAYOUTS = [
    ("cores:2,model:2", "batch:cores,channels:model"),
    ("rows:2,cols:3", "height:rows,width:cols"),
    ("rows:3,model:3", "height:rows,channels:model"),  # uneven: slices of 2, 2 and 0
]
SPLITS = r"(every dimension(; gathers.*)?|all but the classes)"
IMAGE = np.random.default_rng(0).standard_normal((2, 4, 6, 4))


def _table():
    """Returns the rows of the tables about operations, {first cell: (call, split, values)}."""
    lines = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return {cells[0]: cells[2:] for cells in lines if len(cells) == 5 and cells[0] not in ("---", "you look for")}


TABLE = _table()


def _exists(name):
    """Returns whether a public name such as "mi.ops.conv3d" exists."""
    value = mi
    for part in name.split(".")[1:]:
        value = getattr(value, part, None)
    return value is not None


def _run(fn, *layout):
    return [np.asarray(y) for y in tf.nest.flatten(EagerProgram(fn, {"x": (SHAPE, "float64")}, *layout)(x=IMAGE))]


def test_every_row_has_a_program():
    assert [*TABLE] == sorted(ROWS, key=[*TABLE].index)
    assert all(re.fullmatch(SPLITS, split) and values in ("equal", "rounding") for _, split, values in TABLE.values())


@pytest.mark.mostly_slow(fast=0.3)
@pytest.mark.parametrize("row", ROWS)
def test_a_split_does_not_change_the_values(row):
    _, split, values = TABLE[row]
    whole = _run(ROWS[row])
    for layout in LAYOUTS:
        for found, expected in zip(_run(ROWS[row], *layout), whole, strict=True):
            if values == "equal":
                np.testing.assert_array_equal(found, expected, err_msg=str(layout))
            else:
                np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9, err_msg=str(layout))
    if "classes" in split:
        with pytest.raises(mi.LayoutError, match="'classes'"):
            _run(ROWS[row], "model:3", "classes:model")


def test_every_name_on_the_page_exists():
    names = {name for code in pages.inline_code(PAGE.read_text()) for name in re.findall(r"\bmi\.[\w.]*\w", code)}
    assert len(names) > 100
    assert [name for name in sorted(names) if not _exists(name)] == []


def test_every_operation_and_layer_is_on_the_page():
    text = PAGE.read_text()
    public = [f"mi.ops.{name}" for name in mi.ops.__all__] + [f"mi.layers.{name}" for name in mi.layers.__all__]
    assert [name for name in public if f"`{name}`" not in text] == []
