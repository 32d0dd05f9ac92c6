"""The bytes of device memory that operations for detectors read and write."""

import functools

import pytest

from mtf_imaging.engine.ops.detection.top_k import TopK
from mtf_imaging.engine.program.tracing import trace_only
from mtf_imaging.planner.cost.memory_traffic import memory_traffic
from tests.engine.exchanges import stacked_mesh
from tests.engine.ops import test_roi_align
from tests.engine.ops.test_top_k import SIZES, choose, specs


def test_top_k_reads_only_the_rows_that_it_chooses():
    (op,) = [op for op in trace_only(functools.partial(choose, 3), specs(SIZES)).needed if isinstance(op, TopK)]
    scores, chosen = 3 * 4 * 3 * 2 * 8, 3 * 3 * (8 + 4 * 4 + 8 + 4)
    assert memory_traffic(op, stacked_mesh("rows:2,cols:2", "x:rows,y:cols"), 1) == 12 * scores + 2 * chosen


@pytest.mark.parametrize(("mesh", "layout", "height", "rois", "own"), test_roi_align.SHARES)
def test_roi_align_reads_four_pixels_a_sample(mesh, layout, height, rois, own):
    samples, tensors = 2 * rois * 3 * 3 * 3, 2 * (height * 9 * 3 + own * (3 * 3 * 3 + 1)) * 4 + 2 * own * 4 * 8
    assert memory_traffic(test_roi_align.traced(), stacked_mesh(mesh, layout), 1) == tensors + 20 * samples * 8
