"""Compares the exchanges that the planner models with the exchanges that a program lowers."""

import collections

from mtf_imaging.engine.layout import Layout
from mtf_imaging.engine.meshes import make_mesh_impl
from mtf_imaging.engine.program.tracing import trace_only
from mtf_imaging.engine.program.traffic import traffic


def stacked_mesh(mesh_shape, layout):
    """Returns a mesh of processors that share one device."""
    return make_mesh_impl("stacked", Layout.of(layout, mesh_shape), ["CPU:0"])


def modeled(fn, inputs, mesh_shape, layout):
    """Counts the exchanges that the planner models: {`Exchange`: number}."""
    found = traffic(trace_only(fn, inputs, Layout.of(layout, mesh_shape)).needed, stacked_mesh(mesh_shape, layout))
    return collections.Counter(exchange for exchanges in found.values() for exchange in exchanges)


def check_exchanges(program, fn, inputs):
    """Asserts that the planner models every exchange of a program, and no other.

    Args:
      program: the `Program`.
      fn: the function of the program.
      inputs: the inputs of the program.
    """
    lowered = collections.Counter(program.mesh_impl.exchanged)
    stated = modeled(fn, inputs, "", program.layout)
    assert stated == lowered, (
        f"layout '{program.layout}': the operations lower exchanges that `exchanges` "
        f"does not state: {dict(lowered - stated)}; and state exchanges that they do not lower: "
        f"{dict(stated - lowered)}. Fix: correct the method `exchanges` of the operation, or its `lower`."
    )
