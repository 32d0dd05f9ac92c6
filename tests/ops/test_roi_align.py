"""RoIAlign under all layouts equals a product of whole maps with dense matrices of weights."""

import pytest

from tests.harness import check
from tests.ops.sampled_boxes import CASES

LAYOUTS = [
    ("", ""),
    ("rows:2", "height:rows"),
    ("rows:2,cols:2", "height:rows,width:cols"),
    ("rows:5,cols:4", "height:rows,width:cols"),
    ("rows:2,cores:2", "height:rows,batch:cores"),
    ("cores:3,cols:2", "batch:cores,width:cols"),
    ("rows:2,model:2", "height:rows,channels:model"),
    ("rows:2,cols:3", "height:rows,rois_whole:cols"),
    ("rows:2", "height:rows,rois_whole:rows"),
    ("rows:4,cols:2", "height:rows,width:cols,rois_whole:rows"),
    ("rows:3", "rois_whole:rows"),
    ("spare:2,rows:2,cols:3", "height:rows,crop_height:cols,crop_width:rows"),
    ("rows:2,cols:2", "height:rows,width_whole:cols"),
    ("rows:2,cols:2", "height:rows,height_whole:cols"),
]


@pytest.mark.parametrize("impl", ["stacked", "placement"])
@pytest.mark.parametrize(("mesh", "layout"), LAYOUTS)
def test_equals_the_whole(mesh, layout, impl):
    check(CASES[0], "float64", mesh, layout, impl)
