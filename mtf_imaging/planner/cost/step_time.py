"""A simple model of the step time: operations at one rate, bytes over one link, one latency per exchange."""

import math
from typing import NamedTuple

from mtf_imaging.meshes.exchange import Exchange
from mtf_imaging.meshes.grid import ShardGrid
from mtf_imaging.planner.cost.hardware import Hardware
from mtf_imaging.planner.cost.plan import Plan


class StepTime(NamedTuple):
    """The seconds of a step on one device.

    Attributes:
      compute: seconds spent on operations.
      links: seconds spent on sending bytes to other devices.
      latency: seconds spent on waiting for exchanges, independent of their size.
    """

    compute: float
    links: float
    latency: float

    @property
    def total(self) -> float:
        return self.compute + self.links + self.latency

    @property
    def exchange_share(self) -> float:
        """The share of exchanges in the step, 0..1; the model assumes no overlap with computation."""
        return (self.links + self.latency) / self.total if self.total else 0.0


def step_time(plan: Plan, hardware: Hardware, dtype: str) -> StepTime:
    """Estimates the step time of a device with neighbors on all sides, which is the slowest one.

    Exchanges between processors of one device do not use links. Every device receives the weights for each pass.

    Args:
      plan: the plan of the step.
      hardware: the kind of device.
      dtype: the dtype of the activations.
    """
    flops = plan.total(lambda op: op.flops) * plan.grid.stack_size
    nbytes = plan.total(lambda op: sum(sent_by_device(e, plan.grid) for e in op.exchanges))
    count = plan.total(lambda op: sum(messages(e, plan.grid) for e in op.exchanges))
    nbytes += plan.weights_sent + plan.state_sent
    return StepTime(flops / hardware.flops_of(dtype), nbytes / hardware.link, count * hardware.latency)


def sent_by_device(exchange: Exchange, grid: ShardGrid) -> int:
    """Returns the bytes that a device in the interior of the mesh sends to other devices.

    Each voxel of a halo is sent once, even if several processors of a device need it. Sums are computed within each
    device first.
    """
    others = math.prod(grid.shards[axis] for axis in exchange.axes)
    if others == 1:
        return 0
    along = math.prod(grid.local[axis] for axis in exchange.axes)
    if exchange.kind == "halo":
        return exchange.nbytes * grid.stack_size // along
    if exchange.kind == "sum":
        return exchange.nbytes * grid.stack_size // along * 2 * (others - 1) // others
    shares = {"gather": others - 1, "all-to-all": (others - 1) / others}
    return int(exchange.nbytes * grid.stack_size * shares[exchange.kind])


def messages(exchange: Exchange, grid: ShardGrid) -> int:
    """Returns the number of messages, 0 or 1, that a device sends for an exchange.

    All halo voxels that one device needs from another form one message, counted with the exchange of the nearest slice.
    """
    if not sent_by_device(exchange, grid):
        return 0
    if exchange.kind != "halo":
        return 1
    (axis,) = exchange.axes
    return int((abs(exchange.distance) - 1) % grid.local[axis] == 0)
