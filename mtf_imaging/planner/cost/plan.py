"""The cost of a training step under a layout, per operation and in total."""

import collections
import dataclasses
import functools
import math

from mtf_imaging.engine import upstream
from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.layout import Layout, UnevenSplit, format_shape, parse_shape, uneven_splits
from mtf_imaging.engine.meshes import ShardMeshImpl
from mtf_imaging.engine.meshes.exchange import Exchange
from mtf_imaging.engine.meshes.grid import ShardGrid
from mtf_imaging.engine.ops.freezing import is_weight
from mtf_imaging.engine.program.layout_changes import LayoutChange, layout_changes
from mtf_imaging.engine.program.traffic import traffic
from mtf_imaging.engine.turns.costs import TurnCosts
from mtf_imaging.planner.cost.interconnect import Interconnect
from mtf_imaging.planner.cost.memory_traffic import halo_copies, memory_traffic
from mtf_imaging.planner.cost.residence import Peak, peak
from mtf_imaging.training.gradients import BACKWARD, UPDATE
from mtf_imaging.training.step import TracedStep


@dataclasses.dataclass(frozen=True)
class OpCost:
    """The cost of one operation on one processor, in one pass through the network.

    Attributes:
      name: the operation name.
      kind: the kind of the operation, such as "conv3d".
      phase: "forward", "backward" or "update".
      whole: the shape of the (first) result, such as "batch:1,x:64".
      slice: the shape of one processor's slice of this result.
      halo: {dimension: (before, after)}, the halo of the input in voxels along split dimensions.
      flops: multiplications and additions, including those on the tails of uneven slices.
      slices: the number of slices that a device computes; 1 if the layout does not split any of the tensors.
      memory_traffic: bytes that the kernels of the operation read and write on a device; see `memory_traffic`.
      halo_copies: bytes that a device reads and writes to join slices with their halos.
      is_gradient: whether the results are gradients of variables, which only the update reads.
      useful_flops: flops without tails, averaged over processors.
      nbytes: bytes of the results.
      exchanges: the exchanges of the operation; see `Exchange`.
    """

    name: str
    kind: str
    phase: str
    whole: str
    slice: tuple[int, ...]
    halo: dict[str, tuple[int, int]]
    flops: int
    slices: int
    memory_traffic: int
    halo_copies: int
    is_gradient: bool
    useful_flops: int
    nbytes: int
    exchanges: tuple[Exchange, ...]

    def sent(self, coordinates, mesh_sizes, kinds=("halo",)) -> int:
        """Returns the bytes that the processor at these mesh coordinates sends."""
        return sum(e.sent_by(coordinates, mesh_sizes) for e in self.exchanges if e.kind in kinds)


@dataclasses.dataclass(frozen=True)
class Plan:
    """The cost of a training step.

    Attributes:
      layout: the layout.
      interconnect: the devices, their hosts and the mesh implementation.
      ops: the operations of one pass through the network and of the update.
      parts: the number of micro-batches, which is the number of passes per step.
      forward_passes: the number of forward passes per backward pass.
      weights: bytes of weights on the device that has the most.
      state: bytes of all other persistent tensors on the device that has the most: optimizer state, moving statistics
        and the gradient summed over micro-batches.
      variables: bytes of all variables of the program.
      weights_read: bytes of weights that each device reads in a pass.
      state_read: bytes of other variables that each device reads in a step. If the layout splits a variable, each
        device updates its own slice; otherwise only the device that keeps the variable updates it.
      peak: the peak of temporary tensors on a device that computes its processors at the same time.
      changes: the operations at which the layout changes within the network.
      turns: what turns keep and move, summed over the devices; None if no processors take turns.
    """

    layout: Layout
    interconnect: Interconnect
    ops: tuple[OpCost, ...]
    parts: int
    forward_passes: int
    weights: int
    state: int
    variables: int
    weights_read: int
    state_read: int
    peak: Peak
    changes: tuple[LayoutChange, ...]
    turns: TurnCosts | None = None

    @property
    def grid(self) -> ShardGrid:
        """The assignment of processors to devices."""
        return self.interconnect.grid

    @property
    def sends_variables(self) -> bool:
        """Whether devices read variables of other devices; under the collective mesh, each device has all variables."""
        return self.devices > 1 and self.interconnect.mesh_impl != "collective"

    @property
    def processors(self) -> int:
        return math.prod(self.grid.mesh)

    @property
    def devices(self) -> int:
        return self.grid.num_shards

    @property
    def interior(self) -> tuple[int, ...]:
        """Coordinates of a processor with neighbors on all sides, or as many as possible in a small mesh."""
        return tuple(size // 2 for size in self.grid.mesh)

    @property
    def border(self) -> tuple[int, ...]:
        """Coordinates of a processor at a corner of the mesh."""
        return (0,) * len(self.grid.mesh)

    @property
    def memory(self) -> int:
        """Bytes that a device holds at the peak of a step."""
        return self.weights + self.state + self.temporary

    @property
    def temporary(self) -> int:
        """Bytes of temporary tensors on a device at the peak of a step."""
        return self.turns.memory // self.devices if self.turns else self.peak.nbytes

    @property
    def wasted(self) -> float:
        """The share of all arithmetic operations, 0..1, that compute tails of uneven slices."""
        flops = self.total(lambda op: op.flops)
        return 1 - self.total(lambda op: op.useful_flops) / flops if flops else 0.0

    @functools.cached_property
    def uneven_splits(self) -> tuple[UnevenSplit, ...]:
        """The dimensions of operation results that have uneven slices."""
        return uneven_splits(self.layout, {parse_shape(op.whole) for op in self.ops})

    @property
    def weights_sent(self) -> int:
        """Bytes of weights that each device receives in a step: once per forward pass of each micro-batch."""
        return self.weights_read * self.parts * self.forward_passes if self.sends_variables else 0

    @property
    def state_sent(self) -> int:
        """Bytes of optimizer state that each device receives in a step."""
        return self.state_read if self.sends_variables else 0

    def times(self, phase: str) -> int:
        """Returns how many times a step runs the operations of a phase."""
        return {"forward": self.parts * self.forward_passes, "backward": self.parts, "update": 1}[phase]

    def total(self, cost, phase: str | None = None) -> int:
        """Returns the sum of `cost(OpCost)` over all operations of a step, or of one phase of it."""
        return sum(cost(op) * self.times(op.phase) for op in self.ops if phase in (None, op.phase))

    def sent(self, coordinates: tuple[int, ...], phase: str | None = None, kinds=("halo",)) -> int:
        """Returns the bytes that the processor at these mesh coordinates sends in a step."""
        return self.total(lambda op: op.sent(coordinates, self.grid.mesh, kinds), phase)

    @property
    def moved(self) -> int:
        """Bytes that all processors together send in a step, in all kinds of exchanges."""
        return self.total(lambda op: sum(e.sent_by_all(self.grid.mesh) for e in op.exchanges))

    def count(self, kinds=("halo",), phase: str | None = None) -> int:
        """Returns the number of exchanges of the given kinds in a step."""
        return self.total(lambda op: sum(e.kind in kinds for e in op.exchanges), phase)


def make_plan(
    step: TracedStep,
    layout: Layout,
    devices: int | None = None,
    *,
    num_hosts: int = 1,
    mesh_impl: str = "placement",
    turns: TurnCosts | None = None,
) -> Plan:
    """Adds up the cost of a step.

    Args:
      step: the step, as returned by `TrainingStep.trace`.
      layout: a legal layout; see `tracing.check`.
      devices: the number of devices; default: one for each processor of a turn. With fewer devices, several processors
        share one.
      num_hosts: the number of hosts, which must divide the number of devices.
      mesh_impl: "placement" distributes the variables over the devices, "collective" gives each device all of them, and
        "stacked" has one device.
      turns: what turns keep and move, summed over the devices; None if no processors take turns.

    Raises:
      ConfigError: `num_hosts` does not divide the number of devices.
    """
    devices = 1 if mesh_impl == "stacked" else devices or layout.processors // layout.turns
    mesh = _PlannedMesh(
        # Devices split the first mesh dimensions. The processors that take turns are on the same device.
        mtf.convert_to_shape(sorted(layout.mesh_shape, key=lambda dim: dim[0] in layout.sequential)),
        mtf.convert_to_layout_rules(list(layout.rules)),
        [f"device:{n}" for n in range(devices)],
    )
    exchanges, exact, gradients, widened = traffic(step.phases, mesh), mesh.exact(), _gradients(step), set()
    ops = tuple(
        _cost(op, phase, mesh, exact, exchanges.get(op, ()), op in gradients, widened)
        for op, phase in step.phases.items()
    )
    variables = [v for v in step.traced.graph.all_variables if v in step.phases]
    weights, state = _kept(step.traced, everywhere=mesh_impl == "collective")
    accumulated = sum(v.size * v.master_dtype.size for v in variables if v.trainable) if step.parts > 1 else 0
    return Plan(
        layout,
        Interconnect(mesh.grid, num_hosts, mesh_impl),
        ops,
        step.parts,
        step.forward_passes,
        weights,
        state + accumulated,
        sum(v.size * v.master_dtype.size for v in step.traced.graph.all_variables),
        sum(_slice_bytes(v, mesh) for v in variables if is_weight(v)),
        sum(_slice_bytes(v, mesh) for v in variables if not is_weight(v) and mesh.is_split(v.shape)),
        peak(step.phases, mesh, mesh.grid.stack_size),
        tuple(layout_changes(step.traced.graph, mesh)),
        turns,
    )


def _gradients(step):
    """Returns the backward operations whose results only the update reads: gradients of variables.

    The gradient of a norm is excluded, because the backward pass reads one of its results.
    """
    readers = collections.defaultdict(list)
    for op in step.phases:
        for x in upstream.reads(op):
            readers[x.operation].append(op)
    result = set()
    for op in reversed([op for op, phase in step.phases.items() if phase == BACKWARD]):
        if readers[op] and all(step.phases[reader] == UPDATE or reader in result for reader in readers[op]):
            result.add(op)
    return result


def _kept(traced, everywhere):
    """Returns the bytes of weights and of other variables, each on the device that has the most.

    Args:
      traced: the graph.
      everywhere: whether every device has all variables.
    """
    kept = collections.defaultdict(lambda: [0, 0])
    for variable in traced.graph.all_variables:
        home = None if everywhere else traced.variables.homes[variable.name]
        kept[home][not is_weight(variable)] += variable.size * variable.master_dtype.size
    return tuple(max(sizes) for sizes in zip(*kept.values(), strict=True)) or (0, 0)


def _slice_bytes(variable, mesh):
    return math.prod(mesh.slice_shape(variable.shape)) * variable.slice_dtype.size


class _PlannedMesh(ShardMeshImpl):
    """A mesh that caches its results per shape, because planning queries the same shapes thousands of times."""

    def __init__(self, *options):
        super().__init__(*options)
        self._slices, self._axes = {}, {}

    def exact(self):
        """Returns a mesh whose slices have `n / N` elements, which does not have to be an integer."""
        return _ExactMesh(self.shape, self.layout_rules, self.devices)

    def without(self, names):
        mesh = super().without(names)
        mesh._slices, mesh._axes = {}, {}
        return mesh

    def slice_shape(self, shape):
        key = tuple(shape.dims)
        if key not in self._slices:
            self._slices[key] = super().slice_shape(shape)
        return list(self._slices[key])

    def split_axes(self, shape):
        key = tuple(shape.dims)
        if key not in self._axes:
            self._axes[key] = super().split_axes(shape)
        return self._axes[key]


class _ExactMesh(_PlannedMesh):
    """A mesh whose slices have the mean size of the true slices."""

    def slice_shape(self, shape):
        axes = self.split_axes(shape)
        return [
            dim.size if axis is None else dim.size / self.shape[axis].size
            for dim, axis in zip(shape.dims, axes, strict=True)
        ]


def _cost(op, phase, mesh, exact, exchanges, is_gradient, widened):
    first = next(iter(op.outputs), None)
    shape = mtf.Shape([]) if first is None else first.shape
    nbytes = sum(math.prod(mesh.slice_shape(y.shape)) * y.dtype.size for y in op.outputs)
    return OpCost(
        op.name,
        getattr(op, "kind", None) or type(op).__name__,
        phase,
        format_shape((d.name, d.size) for d in shape.dims),
        tuple(mesh.slice_shape(shape)),
        _halo(op, mesh),
        _flops(op, mesh),
        mesh.grid.stack_size if any(mesh.is_split(t.shape) for t in [*op.inputs, *op.outputs]) else 1,
        memory_traffic(op, mesh, mesh.grid.stack_size),
        halo_copies(op, mesh, mesh.grid.stack_size, widened),
        is_gradient,
        round(_flops(op, exact)),
        nbytes,
        tuple(exchanges),
    )


def _halo(op, mesh):
    geometry = getattr(op, "geometry", None)
    if geometry is None:
        return {}
    return {
        name: (margin.before, margin.after)
        for name, margin in zip(geometry.names, geometry.margins(mesh))
        if margin.mesh_axis is not None
    }


def _flops(op, mesh):
    """Returns the arithmetic operations of a convolution or product; for other kinds, one per result element."""
    if hasattr(op, "flops"):
        return op.flops(mesh)
    if isinstance(op, mtf.EinsumOperation):
        dims = dict.fromkeys(d for x in op.inputs for d in x.shape.dims)
        return 2 * math.prod(mesh.slice_shape(mtf.Shape(list(dims))))
    return sum(math.prod(mesh.slice_shape(y.shape)) for y in op.outputs)
