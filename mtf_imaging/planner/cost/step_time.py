"""How long a step takes, by a simple model: operations at one rate, bytes over one link, a latency an exchange."""

import math
from typing import NamedTuple

from mtf_imaging.meshes.exchange import Exchange
from mtf_imaging.meshes.grid import ShardGrid
from mtf_imaging.planner.cost.hardware import Hardware
from mtf_imaging.planner.cost.plan import Plan


class StepTime(NamedTuple):
    """Seconds of a step of one device.

    Attributes:
      compute: of operations.
      links: of bytes on their way to other devices.
      latency: of exchanges, whatever their size.
    """

    compute: float
    links: float
    latency: float

    @property
    def total(self) -> float:
        return self.compute + self.links + self.latency

    @property
    def exchange_share(self) -> float:
        """Share of the step that is exchange, 0..1: nothing of it is hidden behind computing here."""
        return (self.links + self.latency) / self.total if self.total else 0.0


def step_time(plan: Plan, hardware: Hardware, dtype: str) -> StepTime:
    """Models the step of a device with neighbours on all sides, the slowest one.

    Processors of one device exchange nothing over links. Weights are sent to every device for each pass.
    """
    flops = plan.total(lambda op: op.flops) * plan.grid.stack_size
    nbytes = plan.total(lambda op: sum(sent_by_device(e, plan.grid) for e in op.exchanges))
    count = plan.total(lambda op: sum(messages(e, plan.grid) for e in op.exchanges))
    nbytes += plan.weights_sent + plan.state_sent
    return StepTime(flops / hardware.flops_of(dtype), nbytes / hardware.link, count * hardware.latency)


def sent_by_device(exchange: Exchange, grid: ShardGrid) -> int:
    """Bytes that a device in the interior of the mesh sends to others.

    Each voxel of a halo is sent once, even if several processors of a device need it. Sums start within each device.
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
    """Returns the number of messages that a device sends for an exchange, 0 or 1.

    All halo voxels that one device needs from another are one message, counted with the exchange of the nearest slice.
    """
    if not sent_by_device(exchange, grid):
        return 0
    if exchange.kind != "halo":
        return 1
    (axis,) = exchange.axes
    return int((abs(exchange.distance) - 1) % grid.local[axis] == 0)
