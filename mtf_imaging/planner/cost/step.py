"""The step that is planned: that of a task and its optimizer, as a graph whose parts are known."""

from typing import NamedTuple

from mtf_imaging.compat import mtf
from mtf_imaging.ops.over_batch import FirstPass, in_pass
from mtf_imaging.program.tracing import Traced, trace_only
from mtf_imaging.training.micro_batches import part_inputs
from mtf_imaging.training.step import gradients_of
from mtf_imaging.training.task import Task, loss_of

FORWARD, BACKWARD, UPDATE = "forward", "backward", "update"


class Step(NamedTuple):
    """A step of training as a graph.

    Attributes:
      traced: its graph.
      phases: {operation: FORWARD, BACKWARD or UPDATE}, of those that are needed, in their order.
      parts: how often a step goes through the network: once, or once a micro-batch.
      forward_passes: how often a step computes the forward pass for each backward one.
    """

    traced: Traced
    phases: dict[mtf.Operation, str]
    parts: int
    forward_passes: int


def trace_step(task: Task, optimizer, inputs: dict, mesh_shape="", layout="", parts=1, devices=("CPU:0",)) -> Step:
    """Traces a step; nothing of its size is allocated.

    Args:
      task: a `Task`.
      optimizer: an `Optimizer`.
      inputs: of a whole batch, as `training.task.task_inputs` gives them.
      mesh_shape: the mesh.
      layout: the layout; neither is checked.
      parts: number of micro-batches.
      devices: names of the devices that variables are spread over.

    Raises:
      ConfigError: the batch does not come in so many parts.
    """
    ends, sums = [], []

    def step(**tensors):
        loss, measures = loss_of(task, tensors)
        ends.append(len(loss.graph.operations))
        variables, gradients = gradients_of(loss)
        ends.append(len(loss.graph.operations))
        optimizer.apply(gradients, variables)
        return {"loss": loss, **measures}

    def first_pass(**tensors):
        with in_pass(FirstPass()) as current:
            loss, _ = loss_of(task, tensors)
        sums.extend(current.sums)
        return loss

    inputs = part_inputs(inputs, parts)
    if parts > 1:
        trace_only(first_pass, inputs, mesh_shape, layout)
    traced = trace_only(step, inputs, mesh_shape, layout, devices)
    names = [FORWARD] * ends[0] + [BACKWARD] * (ends[1] - ends[0])
    names += [UPDATE] * (len(traced.graph.operations) - ends[1])
    phase = dict(zip(traced.graph.operations, names, strict=True))
    return Step(traced, {op: phase[op] for op in traced.needed}, parts, 2 if sums else 1)
