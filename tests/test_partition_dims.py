"""Layouts as TPUEstimator takes them: what they are here, and what is said of numbers that make none."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mtf_imaging as mi
from mtf_imaging.layout import LayoutError, from_partition_dims, parse_layout, parse_partition_dims, parse_shape
from mtf_imaging.models.unet3d import UNet3D

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
def test_what_numbers_are_as_a_layout(numbers, dims, options, expected):
    assert from_partition_dims(numbers, dims, **options) == expected


@pytest.mark.parametrize(
    ("numbers", "dims", "options", "message"),
    [
        ([1, 0, 2, 1], IMAGE, {}, "[1, 0, 2, 1] has 1 fault:\n  'x' must be cut into 1, 2, 3 ... slices, not 0."),
        (
            [1, -2, 2.5, 1],
            IMAGE,
            {},
            "has 2 faults:\n  'x' must be cut into 1, 2, 3 ... slices, not -2.\n  'y' must",
        ),
        ([1, 4, "2", True], IMAGE, {}, "not '2'.\n  'channels' must be cut into 1, 2, 3 ... slices, not True."),
        (
            [1, 4, 2],
            IMAGE,
            {},
            "[1, 4, 2] has 3 numbers, but 'batch,x,y,channels' names 4 dimensions. Fix: a number",
        ),
        ([[1, 4, 2], None], IMAGE, {}, "[1, 4, 2] has 3 numbers, but 'batch,x,y,channels' names 4 dimensions."),
        ([[1, 4], [1, 4]], ["batch,x", "batch"], {}, "[1, 4] has 2 numbers, but 'batch' names 1 dimensions."),
        ([], IMAGE, {}, "[] has 0 numbers"),
        (
            "[1,4,2,1]",
            IMAGE,
            {},
            "must be a list such as [1, 4, 2, 1], or one with a list for each input such as [[1",
        ),
        (4, IMAGE, {}, "not 4 (int)."),
        ([1, [1, 4, 1, 1]], IMAGE, {}, "1 stands where the list of an input should. Fix: [1, ...], or None."),
        (
            [[1, 4], [1, 2]],
            "batch,x",
            {},
            "'x' is cut into 4 slices in one input and into 2 in another; a layout",
        ),
        (
            [1, 4, 2, 1],
            IMAGE,
            {"num_cores_per_replica": 4},
            "[1, 4, 2, 1] has 1 fault:\n  it makes 4 x 2 = 8 slices, but num_cores_per_replica is 4. "
            "Fix: num_cores_per_replica 8, or numbers whose product is 4.",
        ),
        ([1, 4], "batch,x", {"num_cores_per_replica": "4"}, "num_cores_per_replica must be 1, 2, 3 ..., not '4'."),
        ([1, 4], "batch,x", {"num_replicas": 0}, "num_replicas must be 1, 2, 3 ..., not 0."),
        ([1, 4], "n,x", {"num_replicas": 2}, "replicas share the batch, but of 'n,x' none is called 'batch'. Fix"),
        ([1, 4], "batch,2x", {}, "dims 'batch,2x': '2x' is no name"),
        ([1, 4], "x,x", {}, "dims 'x,x': 'x' is named 2 times. Fix: a name for each."),
        (
            [1, 4],
            3,
            {},
            "dims must be names such as 'batch,x,y,channels', or a list of them for each of 1 inputs",
        ),
        ([[1, 4]], ["batch,x", "batch"], {}, "not ['batch,x', 'batch'], which are 2."),
        ([[1, 4]], [None], {}, "dims of an input that is split must be names such as 'batch,x,y,channels', not None"),
    ],
)
def test_what_makes_no_layout(numbers, dims, options, message):
    with pytest.raises(LayoutError, match=re.escape(message)):
        from_partition_dims(numbers, dims, **options)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6))
def test_each_dimension_is_split_as_it_says(numbers):
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
def test_strings_that_can_be_read(string, numbers):
    assert parse_partition_dims(string) == numbers


@pytest.mark.parametrize("string", ["", "[1,4", "[1,x]", "4", "'1,4'", "rows:4", "[1,04]", "[" * 5000])
def test_strings_that_cannot(string):
    with pytest.raises(LayoutError, match=r"_dims '.*' (cannot be read|is no list)\. Fix: .*\[1,4,2,1\]"):
        parse_partition_dims(string)


def test_a_level_that_does_not_divide_is_refused_with_the_fix():
    network = UNet3D(base_filters=2, depth=3, convs=1, norm="none", dropout_rate=0.0)

    def build(numbers):
        inputs = {"image": "batch:1,x:16,y:16,z:8,channels:1"}
        split = from_partition_dims(numbers, dims="batch,x,y,z,channels")
        return mi.Program(lambda image: network(image, is_training=False), inputs, *split)

    assert build([1, 4, 2, 1, 1]).slice_shape("image") == [1, 4, 8, 8, 1]
    with pytest.raises(LayoutError) as error:
        build([1, 8, 2, 1, 1])
    assert "layout 'x:rows,y:cols' on mesh 'rows:8,cols:2' has" in str(error.value)
    assert (
        "max_pool3d 'unet3d/pool2': cannot split 'x' (size 8) over 'rows' (size 8): with kernel 2, stride 2 and VALID "
        "padding, 8 voxels hold 4 windows, and its output size 4 is not divisible by 8, nearest legal: 16. "
        "Fix: pad 'x' to 16, or drop 'x:rows'." in str(error.value)
    )
    assert "with mi.ops.gather_slices or a network's gather_below." in str(error.value)
    assert "'y'" not in str(error.value)
