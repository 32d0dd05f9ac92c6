"""The peak memory that the planner computes for a training step, compared with measured steps on a CPU.

The planner counts the tensors that exist at the same time. TensorFlow reports the chunks of its allocator, which are
larger, and the peaks of single steps differ, because operations run in a different order each time. A measurement is
therefore the median of several steps of a new process.
"""

import pytest
import tensorflow as tf

from benchmarks.largest_cube import peak_of
from benchmarks.step_memory import STEPS, Setting, planned_process
from mtf_imaging.engine.ops.conv.local import has_all_gradients

pytestmark = pytest.mark.skipif(
    not has_all_gradients(tf.bfloat16), reason="this CPU computes convolutions in bfloat16 with copies in float32"
)


def planned_per_measured(setting):
    return setting.plan().peak.nbytes / peak_of(setting, STEPS + 1).tensors


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("size", [48, 64, 80])
def test_the_plan_is_within_15_percent_of_a_measured_step(size, dtype):
    assert planned_per_measured(Setting(size, dtype)) == pytest.approx(1, abs=0.15)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"recompute": True},
        {"recompute": True, "dtype": "float32"},
        {"mesh_shape": "rows:2,cols:2", "layout": "x:rows,y:cols"},
        {"size": 64, "mesh_shape": "rows:4", "layout": "x:rows", "dtype": "float32"},
        {"norm": "group"},
        {"size": 64, "tpu": True},
    ],
    ids=str,
)
def test_so_is_the_plan_of_other_steps(options):
    assert planned_per_measured(Setting(**{"size": 48, **options})) == pytest.approx(1, abs=0.15)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "turns"), [(64, 8), (96, 8), (128, 8), (128, 4), (96, 24)])
def test_the_plan_of_turns_is_within_15_percent_of_a_measured_process(size, turns):
    """The memory of the process without the imported libraries: a turn, the graph, the weights and their slots."""
    options = {"mesh_shape": f"slabs:{turns}", "layout": "x:slabs", "sequential": "slabs"}
    setting = Setting(size, "float32", base_filters=8, **options)
    measured = peak_of(setting, 3)
    assert planned_process(setting) / (measured.last - measured.imported) == pytest.approx(1, abs=0.15)
