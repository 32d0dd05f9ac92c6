"""The size of a step's graph under each mesh implementation, and its start-up time and memory.

TensorFlow builds and optimizes the whole graph of a process before the first step. Under placement, one process builds
the nodes of every device. Under the collective mesh, each process builds the nodes of its own device only.
"""

from typing import NamedTuple

from mtf_imaging.engine.layout import MESH_IMPLS
from mtf_imaging.planner.cost.plan import OpCost, Plan

# Nodes per operation on one device, measured for the U-Net with SGD, Adam and Adafactor. Kinds that are not listed
# have about `_NODES`.
_NODES = 4.0
_NODES_BY_KIND = {
    **dict.fromkeys(("ReshapeOperation", "StopGradient"), 0.0),
    **dict.fromkeys(("AddOperation", "Constant", "ImportOperation", "MinMaxOperation", "leaky_relu_dx"), 1.0),
    **dict.fromkeys(("ReduceOperation", "ScalarMultiplyOperation"), 1.2),
    "EinsumOperation": 1.6,
    **dict.fromkeys(("Assign", "ScalarAddOperation", "leaky_relu"), 2.0),
    "Variable": 4.0,
    "SlicewiseOperation": 2.5,  # from 1.1 with Adafactor to 7.8 with Adam
    "dropout": 25.0,
}
_NODES_OF_NORMS = {  # for the normalization, and for its gradient
    "batch_norm": (26.0, 37.0),
    "instance_norm": (50.0, 70.0),
    "group_norm": (50.0, 70.0),
}
_NODES_AT_HOME = ("Assign", "Variable")  # most of these nodes are on the device that keeps the variable
_NODES_PER_HALO = {"stacked": 3.0, "placement": 7.0, "collective": 7.0}  # to cut, send and join it
_NODES_OF_PROGRAM = 200.0  # inputs, results, the step and the random keys

# Measured on 2 CPU cores for graphs of 2,000 to 40,000 nodes: 0.6 ms to build a node, and 0.4 ms in the first step, in
# which TensorFlow optimizes and places the graph.
_SECONDS_PER_NODE = 1e-3
_BYTES_PER_NODE = 16e3
_BYTES_PER_STAGE = 1e6  # of processors in turns; each stage is a function
_BYTES_OF_TURNS = 25e6  # of processors in turns, whatever their number: threads and buffers of kernels
PROCESS = 600_000_000  # bytes of a process that has imported TensorFlow

SECONDS_LIMIT = 600.0
BYTES_LIMIT = 16 * 2**30


class StartUp(NamedTuple):
    """The start-up costs of a mesh implementation.

    Attributes:
      nodes: the number of nodes in one process's graph.
      graph_memory: bytes of this graph.
      seconds: seconds from the start of the program to the end of its first step, excluding the computation of the
        step.
      process_memory: bytes of host memory of one process: TensorFlow, the graph, a whole batch, and whole variables,
        which pass through the process in checkpoints. With processors in turns, also the memory of a turn on a CPU.
      host_memory: bytes of host memory of all processes on a host.
    """

    nodes: int
    graph_memory: int
    seconds: float
    process_memory: int
    host_memory: int

    @property
    def takes_too_long(self) -> bool:
        """Whether the graph takes more time or memory than is reasonable."""
        return self.seconds > SECONDS_LIMIT or self.graph_memory > BYTES_LIMIT


def start_ups(plan: Plan, batch: int) -> dict[str, StartUp]:
    """Returns the start-up costs of each mesh implementation with one device per processor, or those of turns.

    Args:
      plan: the plan of a step, under any mesh implementation.
      batch: input bytes of a whole batch.
    """
    if plan.turns is not None:
        nodes = plan.turns.nodes
        graph = int(nodes * _BYTES_PER_NODE + plan.turns.stages * _BYTES_PER_STAGE)
        memory = PROCESS + graph + int(_BYTES_OF_TURNS) + plan.variables + plan.turns.process_memory
        return {"turns": StartUp(nodes, graph, nodes * _SECONDS_PER_NODE, memory, memory)}
    hosts = plan.interconnect.num_hosts
    processes = {"stacked": 1, "placement": 1, "collective": -(-plan.processors // hosts)}
    result = {}
    for name in MESH_IMPLS:
        if name in processes:
            nodes = num_nodes(plan, name)
            graph = int(nodes * _BYTES_PER_NODE)
            memory = PROCESS + graph + batch + plan.variables
            result[name] = StartUp(nodes, graph, nodes * _SECONDS_PER_NODE, memory, memory * processes[name])
    return result


def num_nodes(plan: Plan, mesh_impl: str, devices: int | None = None) -> int:
    """Estimates the number of nodes in one process's graph.

    Args:
      plan: the plan of a step.
      mesh_impl: "stacked", "placement" or "collective".
      devices: the number of devices under placement; default: one per processor.
    """
    ops = [*plan.ops]
    if plan.forward_passes > 1:  # a second program computes the first pass
        ops += [op for op in plan.ops if op.phase == "forward"]
    halos = sum(exchange.kind == "halo" for op in ops for exchange in op.exchanges)
    homes = sum(_nodes(op) for op in ops if op.kind in _NODES_AT_HOME) + _NODES_OF_PROGRAM
    device = sum(_nodes(op) for op in ops if op.kind not in _NODES_AT_HOME) + _NODES_PER_HALO[mesh_impl] * halos
    number = (devices or plan.processors) if mesh_impl == "placement" else 1
    return round(homes + number * device)


def _nodes(op: OpCost) -> float:
    if op.kind in _NODES_OF_NORMS:
        return _NODES_OF_NORMS[op.kind][op.phase == "backward"]
    return _NODES_BY_KIND.get(op.kind, _NODES)
