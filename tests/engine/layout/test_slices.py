"""The slices of a dimension, compared with a list of their sizes."""

import pytest

from mtf_imaging.engine.layout import Layout, Slices, uneven_splits


@pytest.mark.parametrize("parts", range(1, 8))
@pytest.mark.parametrize("whole", range(1, 20))
def test_slices(whole, parts):
    slices = Slices(whole, parts)
    sizes = [len(range(whole)[i * slices.size : (i + 1) * slices.size]) for i in range(parts)]
    assert sum(sizes) == whole
    assert sizes.count(0) == slices.empty == parts - slices.filled
    assert [size for size in sizes if size][-1] == slices.last
    assert slices.uneven == (len(set(sizes)) > 1)
    assert slices.stored_ratio == len(sizes) * max(sizes) / sum(sizes)
    assert (slices.size, slices.last) == (max(sizes), sizes[slices.filled - 1])


def test_uneven_splits_are_listed_once_in_the_order_of_the_rules():
    layout = Layout.parse("rows:2,cols:3,cores:1", "y:cols,x:rows,batch:cores")
    shapes = [[("batch", 3), ("x", 7), ("y", 8)], [("x", 3), ("y", 3)], [("x", 7), ("y", 9), ("z", 5)]]
    assert list(map(str, uneven_splits(layout, shapes))) == [
        "y: 8 over cols:3 -> slices of 3, last 2",
        "x: 7 over rows:2 -> slices of 4, last 3",
        "x: 3 over rows:2 -> slices of 2, last 1",
    ]
