"""The connections between the devices of a plan: links within a host, and a network between hosts."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from mtf_imaging.engine.meshes.exchange import Exchange
from mtf_imaging.engine.meshes.grid import ShardGrid
from mtf_imaging.errors import ConfigError
from mtf_imaging.plain_text import counted

GRADIENT_BUCKETS = 5  # the number of sums into which the collective mesh joins the gradients


class Load(NamedTuple):
    """The bytes of exchanges that happen at the same time.

    Attributes:
      within: bytes that the busiest device sends or receives over its link to devices of the same host.
      between: bytes that the busiest host sends or receives over its network.
      messages: the number of messages that a device sends one after the other.
    """

    within: float
    between: float
    messages: int


@dataclasses.dataclass(frozen=True)
class Interconnect:
    """The devices of a mesh and their hosts.

    Devices are numbered in the row-major order of shards, and each host has consecutive ones.

    Attributes:
      grid: the assignment of processors to devices.
      num_hosts: the number of hosts.
      mesh_impl: the mesh implementation: "stacked", "placement" or "collective".

    Raises:
      ConfigError: `num_hosts` does not divide the number of devices.
    """

    grid: ShardGrid
    num_hosts: int = 1
    mesh_impl: str = "placement"

    def __post_init__(self) -> None:
        if self.num_hosts < 1 or self.devices % self.num_hosts:
            divisors = [str(n) for n in range(1, self.devices + 1) if self.devices % n == 0]
            raise ConfigError(
                f"num_hosts is {self.num_hosts}, which does not divide the "
                f"{counted(self.devices, 'device')} of the mesh. "
                f"Fix: set num_hosts to {' or '.join(filter(None, [', '.join(divisors[:-1]), divisors[-1]]))}.",
                ["num_hosts"],
            )

    @property
    def devices(self) -> int:
        return self.grid.num_shards

    @property
    def devices_per_host(self) -> int:
        return self.devices // self.num_hosts

    @property
    def transport(self) -> str:
        """The transport between devices: "ring", "direct" or "in-process copies"."""
        if self.devices == 1:
            return "in-process copies"
        return "ring" if self.mesh_impl == "collective" else "direct"

    def host(self, device: int) -> int:
        """Returns the host number of a device."""
        return device // self.devices_per_host

    def load(self, exchanges: Iterable[Exchange], gradient: bool = False) -> Load:
        """Returns the load of exchanges that happen at the same time.

        Args:
          exchanges: the exchanges.
          gradient: whether their sums are gradients of weights. Under placement, only the device that keeps a weight
            needs the sum.
        """
        ends, messages = _Ends.none(self), 0
        for exchange in self._as_sent(exchanges):
            nbytes = _payload(exchange, self.grid)
            if not nbytes:
                continue
            unit = self._unit_load(exchange.kind, exchange.axes, self._shift(exchange), gradient)
            ends = _Ends(*(total + nbytes * one for total, one in zip(ends, unit, strict=True)))
            messages += self._messages(exchange)
        busiest = [float(loads.max()) for loads in ends]
        return Load(max(busiest[:2]), max(busiest[2:]), messages)

    def variables_load(self, nbytes: int) -> Load:
        """Returns the load if each device receives `nbytes` of variables, which are spread over all devices."""
        elsewhere = self.devices - self.devices_per_host
        return Load(nbytes * self.devices_per_host / self.devices, nbytes * elsewhere / self.num_hosts, 0)

    def _as_sent(self, exchanges: Iterable[Exchange]) -> Iterator[Exchange]:
        """Yields the exchanges as they are sent.

        Under the collective mesh, two neighbors swap their halos in one exchange, padded to the larger of the two.
        """
        if self.mesh_impl != "collective":
            yield from exchanges
            return
        swapped: dict[tuple[tuple[int, ...], int], int] = {}
        for exchange in exchanges:
            if exchange.kind != "halo":
                yield exchange
                continue
            pair = exchange.axes, abs(exchange.distance)
            swapped[pair] = max(swapped.get(pair, 0), exchange.nbytes)
        for (axes, distance), nbytes in swapped.items():
            for direction in (1, -1):
                yield Exchange("halo", axes, nbytes, direction * distance)

    def _messages(self, exchange: Exchange) -> int:
        """Returns the number of messages, 0 or 1, that a device sends for an exchange.

        All halo voxels that one device needs from another form one message, counted with the nearest slice.
        """
        if exchange.kind != "halo":
            return 1
        swapped_already = self.mesh_impl == "collective" and exchange.distance < 0
        (axis,) = exchange.axes
        return int((abs(exchange.distance) - 1) % self.grid.local[axis] == 0 and not swapped_already)

    def _shift(self, exchange: Exchange) -> int:
        """Returns the distance of a halo in devices."""
        if exchange.kind != "halo":
            return 0
        (axis,) = exchange.axes
        devices = -(-abs(exchange.distance) // self.grid.local[axis])
        return devices if exchange.distance > 0 else -devices

    @functools.cache  # noqa: B019  an interconnect is small, and there are few of them
    def _unit_load(self, kind: str, axes: tuple[int, ...], shift: int, gradient: bool) -> "_Ends":
        """Returns the loads of an exchange per byte of its payload."""
        ends = _Ends.none(self)
        for sender, receiver, share in self._transfers(kind, axes, shift, gradient):
            hosts = self.host(sender), self.host(receiver)
            if hosts[0] == hosts[1]:
                ends.sent[sender] += share
                ends.received[receiver] += share
            else:
                ends.sent_by_host[hosts[0]] += share
                ends.received_by_host[hosts[1]] += share
        return ends

    def _transfers(self, kind: str, axes: tuple[int, ...], shift: int, gradient: bool) -> Iterator[tuple]:
        """Yields (sender, receiver, share of the payload)."""
        if kind == "halo":
            (axis,) = axes
            coordinates = self.grid.shard_coordinates()
            numbers = {shard: number for number, shard in enumerate(coordinates)}
            for number, shard in enumerate(coordinates):
                target = (*shard[:axis], shard[axis] + shift, *shard[axis + 1 :])
                if target in numbers:
                    yield number, numbers[target], 1.0
            return
        for group in self.grid.groups(axes):
            n = len(group)
            if kind != "sum":
                share = 1.0 if kind == "gather" else 1 / n
                yield from ((*pair, share) for pair in itertools.permutations(group, 2))
            elif self.mesh_impl == "collective":
                ring = zip(group, [*group[1:], group[0]], strict=True)
                yield from ((*pair, 2 * (n - 1) / n) for pair in ring)
            else:  # the first device of the group adds up the values and returns the sum
                yield from ((other, group[0], 1.0 if gradient else 2.0) for other in group[1:])


class _Ends(NamedTuple):
    """The bytes at both ends of transfers. Links work in both directions at the same time.

    Attributes:
      sent, received: bytes per device, within its host.
      sent_by_host, received_by_host: bytes per host, to and from other hosts.
    """

    sent: np.ndarray
    received: np.ndarray
    sent_by_host: np.ndarray
    received_by_host: np.ndarray

    @classmethod
    def none(cls, connected: Interconnect) -> "_Ends":
        """Returns loads of 0."""
        return cls(*(np.zeros(n) for n in (connected.devices,) * 2 + (connected.num_hosts,) * 2))


def _payload(exchange: Exchange, grid: ShardGrid) -> int:
    """Returns the bytes of a device's strip, sum or stack of slices; 0 if the exchange stays within each device.

    Each voxel of a halo is sent once, even if several processors of a device need it. Sums are first computed within
    each device.
    """
    if math.prod(grid.shards[axis] for axis in exchange.axes) == 1:
        return 0
    along = math.prod(grid.local[axis] for axis in exchange.axes)
    joined = along if exchange.kind in ("halo", "sum") else 1
    return exchange.nbytes * grid.stack_size // joined
