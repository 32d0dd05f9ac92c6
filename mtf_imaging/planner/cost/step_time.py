"""A model of the step time: a roofline for each operation, and the slowest link for each exchange."""

from typing import NamedTuple

from mtf_imaging.engine.meshes.exchange import KINDS
from mtf_imaging.planner.cost.hardware import Hardware
from mtf_imaging.planner.cost.interconnect import GRADIENT_BUCKETS, Load
from mtf_imaging.planner.cost.plan import Plan


class StepTime(NamedTuple):
    """The seconds of a step on one device.

    Attributes:
      compute: seconds of operations that are limited by arithmetic.
      memory: seconds of operations that are limited by reading and writing device memory.
      links: seconds of exchanges that are limited by the links within a host.
      network: seconds of exchanges that are limited by the network between hosts.
      latency: seconds spent on waiting for exchanges, independent of their size.
      offload: seconds spent on storing and reading the values of turns.
    """

    compute: float
    memory: float
    links: float
    network: float
    latency: float
    offload: float = 0.0

    @property
    def total(self) -> float:
        return sum(self)

    @property
    def exchange_share(self) -> float:
        """The share of the step spent on exchanges, 0..1; the model assumes no overlap with computation."""
        return (self.links + self.network + self.latency) / self.total if self.total else 0.0


def step_time(plan: Plan, hardware: Hardware, dtype: str) -> StepTime:
    """Estimates the step time of the slowest device.

    An operation takes as long as its arithmetic or its reads and writes, whichever takes longer (Williams, Waterman and
    Patterson 2009, "Roofline: an insightful visual performance model"). The exchanges of an operation take as long as
    their slowest link. Exchanges between processors on one device do not use links. Turns store and read their values
    at `Hardware.offload`; the model assumes no overlap with computation.

    Args:
      plan: the plan of the step.
      hardware: the kind of device.
      dtype: the activation dtype.
    """
    seconds = dict.fromkeys(StepTime._fields, 0.0)
    rate = hardware.flops_of(dtype)
    for op in plan.ops:
        arithmetic, access = op.flops * op.slices / rate, op.memory_traffic / hardware.achieved_bandwidth
        bound = "compute" if arithmetic > access else "memory"
        seconds[bound] += plan.times(op.phase) * max(arithmetic, access)
        seconds["memory"] += plan.times(op.phase) * op.halo_copies / hardware.achieved_bandwidth
    for load, times in loads(plan):
        link, network = load.within / hardware.link, load.between / hardware.network
        seconds["network" if network > link else "links"] += times * max(link, network)
        seconds["latency"] += times * load.messages * (hardware.network_latency if load.between else hardware.latency)
    if plan.turns is not None:
        seconds["offload"] = (plan.turns.written + plan.turns.read) / plan.devices / hardware.offload
    return StepTime(**seconds)


def traffic_totals(plan: Plan) -> tuple[float, float]:
    """Returns the bytes per step over the busiest device's link and over the busiest host's network."""
    every = loads(plan)
    return sum(load.within * times for load, times in every), sum(load.between * times for load, times in every)


def loads(plan: Plan) -> list[tuple[Load, int]]:
    """Returns the loads of all exchanges in a step, each with its number of occurrences.

    Under the collective mesh, the gradients of all weights form a few large sums.
    """
    result, connected, gradients = [], plan.interconnect, []
    for op in plan.ops:
        exchanges = op.exchanges
        if op.is_gradient and connected.mesh_impl == "collective":
            sums = [exchange for exchange in exchanges if exchange.kind == "sum"]
            exchanges = [exchange for exchange in exchanges if exchange.kind != "sum"]
            gradients.append(connected.load(sums, gradient=True))
        for kind in KINDS:  # sent one after the other
            load = connected.load([exchange for exchange in exchanges if exchange.kind == kind], op.is_gradient)
            if load.messages:
                result.append((load, plan.times(op.phase)))
    messages = min(GRADIENT_BUCKETS, sum(load.messages for load in gradients))
    if messages:
        within, between = (sum(load[end] for load in gradients) for end in (0, 1))
        result.append((Load(within, between, messages), plan.times("backward")))
    result += [(connected.variables_load(nbytes), 1) for nbytes in (plan.weights_sent, plan.state_sent) if nbytes]
    return result
