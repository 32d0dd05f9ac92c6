"""Functions that all processes of a group call.

They compare results of a collective mesh with those of one processor, or with TensorFlow, in every process. All
processes build and call the same programs in the same order. A comparison comes after all calls, so that a failed
assertion in one process does not leave the others waiting.
"""

from tests import harness
from tests.ops import padded, test_ops_equal_whole

CASES = {case.name: case for case in [*test_ops_equal_whole.CASES, *padded.CASES, *padded.MORE]}


def check_operation(name, dtype, mesh_shape, layout):
    """Compares an operation and its gradients with TensorFlow."""
    harness.check(CASES[name], dtype, mesh_shape, layout, "collective")
