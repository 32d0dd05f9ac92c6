"""Graphs of the processes of a collective mesh: their size, and the bytes that they send."""

import pytest

from benchmarks import process_graphs
from benchmarks.partition.contender import Contender
from benchmarks.partition.networks import Step
from benchmarks.partition.ours import describe_step
from mtf_imaging.engine.layout import Layout
from mtf_imaging.planner.cost.plan import make_plan


def _step(network):
    return Step(network, (32, 32, 32), base_filters=2, depth=2)


@pytest.fixture(scope="module")
def measured():
    """Returns the measurement of a process, {(network, mesh, place): row}."""
    rows = {}
    for network, mesh in (("N1", "4x4"), ("N1", "16x16"), ("N2", "4x4")):
        for place, at in (("corner", [0, 0]), ("inside", [2, 2])):
            rows[network, mesh, place] = process_graphs.measure(
                _step(network), Contender.parse(f"collective:{mesh}"), at
            )
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("place", ["corner", "inside"])
def test_a_graph_does_not_grow_with_the_number_of_processes(measured, place):
    small, large = (measured["N1", mesh, place]["nodes"] for mesh in ("4x4", "16x16"))
    assert abs(large - small) < 0.02 * small


@pytest.mark.slow
@pytest.mark.parametrize("network", ["N1", "N2"])
def test_the_planner_knows_the_bytes_that_a_process_sends(measured, network):
    contender = Contender.parse("collective:4x4")
    plan = make_plan(
        describe_step(_step(network)).trace(Layout.parse(contender.mesh_shape, contender.layout)),
        Layout.parse(contender.mesh_shape, contender.layout),
        mesh_impl="collective",
    )
    loads = [plan.interconnect.load(op.exchanges, op.is_gradient) for op in plan.ops]
    # A process inside the mesh has the most neighbors.
    assert measured[network, "4x4", "inside"]["sent"] == pytest.approx(sum(load.within for load in loads), rel=1e-3)


def test_at_most_five_messages_carry_all_gradients(measured):
    graph = measured["N1", "4x4", "inside"]["program"].function.graph
    sums = [op for op in graph.get_operations() if op.type == "CollectiveReduceV2"]
    assert 2 <= len(sums) <= 5 + 1, "the gradients and the loss"
