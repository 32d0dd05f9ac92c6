"""Conversion of TPUEstimator's `input_partition_dims` to layouts, and the error messages for invalid numbers."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtf_imaging.engine.layout import LayoutError, from_partition_dims, parse_layout, parse_partition_dims, parse_shape

IMAGE = "batch,x,y,channels"


@pytest.mark.parametrize(
    ("numbers", "dims", "options", "expected"),
    [
        ([1, 4, 2, 1], IMAGE, {}, ("rows:4,cols:2", "x:rows,y:cols")),
        ((1, 1, 2, 1), IMAGE, {}, ("rows:2", "y:rows")),
        ([1, 1, 1, 1], IMAGE, {}, ("", "")),
        ([[1, 4, 1, 1], None], "batch,height,width,channels", {}, ("rows:4", "height:rows")),
        ([{"image": [1, 4, 1, 1], "scale": None}, None], IMAGE, {}, ("rows:4", "x:rows")),
        ([None, None], IMAGE, {}, ("", "")),
        (
            [1, 2, 4, 3, 5],
            "batch,x,y,z,channels",
            {},
            ("rows:2,cols:4,planes:3,layers:5", "x:rows,y:cols,z:planes,channels:layers"),
        ),
        ([2, 4, 1, 1], IMAGE, {}, ("rows:4,cores:2", "x:rows,batch:cores")),
        ([2, 4, 1, 1], IMAGE, {"num_replicas": 3}, ("rows:4,cores:6", "x:rows,batch:cores")),
        ([[1, 4, 1, 1], None], IMAGE, {"num_replicas": 8}, ("rows:4,cores:8", "x:rows,batch:cores")),
        ([None], IMAGE, {"num_replicas": 8}, ("cores:8", "batch:cores")),
        ([1, 4, 2, 1], IMAGE, {"num_cores_per_replica": 8, "num_replicas": 1}, ("rows:4,cols:2", "x:rows,y:cols")),
        ([[1, 4, 2, 1], [1, 4, 2]], IMAGE, {}, ("rows:4,cols:2", "x:rows,y:cols")),
        ([[1, 4, 1, 1], [1, 1]], IMAGE, {}, ("rows:4", "x:rows")),
        ([[1, 4], [1, 2, 4]], ["batch,x", "batch;y; x"], {}, ("rows:4,cols:2", "x:rows,y:cols")),
        ([[1, 4], None], ["batch,x", None], {}, ("rows:4", "x:rows")),
        ([np.int64(1), np.int32(4)], "batch,x", {}, ("rows:4", "x:rows")),
    ],
)
def test_numbers_become_a_layout(numbers, dims, options, expected):
    assert from_partition_dims(numbers, dims, **options) == expected


@pytest.mark.parametrize(
    ("numbers", "dims", "options", "message"),
    [
        (
            [1, 0, 2, 1],
            IMAGE,
            {},
            "[1, 0, 2, 1] has 1 fault:\n  the number of slices of 'x' must be a positive integer, not 0.",
        ),
        (
            [1, -2, 2.5, 1],
            IMAGE,
            {},
            "has 2 faults:\n  the number of slices of 'x' must be a positive integer, not -2.\n  the number",
        ),
        (
            [1, 4, "2", True],
            IMAGE,
            {},
            "not '2'.\n  the number of slices of 'channels' must be a positive integer, not True.",
        ),
        (
            [1, 4, 2],
            IMAGE,
            {},
            "[1, 4, 2] has length 3, but the number of dimensions in 'batch,x,y,channels' is 4. Fix: write one number",
        ),
        (
            [[1, 4, 2], None],
            IMAGE,
            {},
            "[1, 4, 2] has length 3, but the number of dimensions in 'batch,x,y,channels' is 4.",
        ),
        (
            [[1, 4], [1, 4]],
            ["batch,x", "batch"],
            {},
            "[1, 4] has length 2, but the number of dimensions in 'batch' is 1.",
        ),
        ([], IMAGE, {}, "[] has length 0"),
        (
            "[1,4,2,1]",
            IMAGE,
            {},
            "must be a list such as [1, 4, 2, 1], or a list with one list per input such as [[1",
        ),
        (4, IMAGE, {}, "not 4 (int)."),
        ([1, [1, 4, 1, 1]], IMAGE, {}, "1 is not the list of an input. Fix: write [1, ...], or None."),
        (
            [[1, 4], [1, 2]],
            "batch,x",
            {},
            "'x' has 4 slices in one input and 2 in another, but a layout splits",
        ),
        (
            [1, 4, 2, 1],
            IMAGE,
            {"num_cores_per_replica": 4},
            "[1, 4, 2, 1] has 1 fault:\n  the number of slices is 4 x 2 = 8, but num_cores_per_replica is 4. "
            "Fix: set num_cores_per_replica to 8, or write numbers whose product is 4.",
        ),
        (
            [1, 4],
            "batch,x",
            {"num_cores_per_replica": "4"},
            "num_cores_per_replica must be a positive integer, not '4'.",
        ),
        ([1, 4], "batch,x", {"num_replicas": 0}, "num_replicas must be a positive integer, not 0."),
        (
            [1, 4],
            "n,x",
            {"num_replicas": 2},
            "replicas share the batch, but no dimension of 'n,x' is called 'batch'. Fix",
        ),
        ([1, 4], "batch,2x", {}, "dims 'batch,2x': '2x' is not a valid name"),
        ([1, 4], "x,x", {}, "dims 'x,x': 'x' appears 2 times. Fix: give each dimension its own name."),
        (
            [1, 4],
            3,
            {},
            "dims must be names such as 'batch,x,y,channels', or a list with such names for each input (length 1), not",
        ),
        ([[1, 4]], ["batch,x", "batch"], {}, "(length 1), not ['batch,x', 'batch'] (length 2)."),
        ([[1, 4]], [None], {}, "the dims of a split input must be names such as 'batch,x,y,channels', not None"),
    ],
)
def test_invalid_numbers_are_refused(numbers, dims, options, message):
    with pytest.raises(LayoutError, match=re.escape(message)):
        from_partition_dims(numbers, dims, **options)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6))
def test_each_dimension_has_the_given_number_of_slices(numbers):
    dims = ["batch", "a", "b", "c", "d", "e"][: len(numbers)]
    mesh_shape, layout = from_partition_dims(numbers, ",".join(dims))
    sizes, rules = dict(parse_shape(mesh_shape)), dict(parse_layout(layout))
    assert [sizes.get(rules.get(name), 1) for name in dims] == numbers
    assert len(set(rules.values())) == len(rules) == len(sizes)


@pytest.mark.parametrize(
    ("string", "numbers"),
    [
        ("[1,4,2,1]", [1, 4, 2, 1]),
        ("1,4,2,1", [1, 4, 2, 1]),
        (" [ [1, 4, 1, 1], None ] ", [[1, 4, 1, 1], None]),
        ("[{'x': [1, 4]}, None]", [{"x": [1, 4]}, None]),
    ],
)
def test_valid_strings(string, numbers):
    assert parse_partition_dims(string) == numbers


@pytest.mark.parametrize("string", ["", "[1,4", "[1,x]", "4", "'1,4'", "rows:4", "[1,04]", "[" * 5000])
def test_invalid_strings(string):
    with pytest.raises(LayoutError, match=r"_dims '.*' (cannot be parsed|is not a list)\. Fix: .*\[1,4,2,1\]"):
        parse_partition_dims(string)
