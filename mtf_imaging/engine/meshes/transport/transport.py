"""Moves tensors between the shards of a mesh.

A transport knows which shards this process computes, and on which devices. With `InProcess`, this process computes all
shards. With `BetweenProcesses`, each process computes one shard. All code above the transport works on a list of
the shards of this process, in ascending order of their numbers.
"""

import abc
import contextlib
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import tensorflow as tf

from mtf_imaging.engine.meshes.grid import ShardGrid


class Message(NamedTuple):
    """A tensor that one shard sends to another, or to itself.

    Attributes:
      source: number of the shard that sends.
      target: number of the shard that receives.
      shape: shape of the tensor.
      make: a function from the source's index in its process's lists to the tensor. It is called only there.
    """

    source: int
    target: int
    shape: tuple[int, ...]
    make: Callable[[int], tf.Tensor]


class Transport(abc.ABC):
    """Moves tensors between shards. All processes must call the methods in the same order.

    Args:
      grid: the division of the mesh into shards.
      numbers: the numbers of the shards of this process, ascending.
      devices: the device of each of these shards.

    Attributes:
      coordinates: the coordinates of the shards of this process, 0 along mesh dimensions in turns.
      in_turns: the mesh dimensions whose processors compute one after another on the same devices.
    """

    in_turns: Collection[int] = ()

    def __init__(self, grid: ShardGrid, numbers: Sequence[int], devices: Sequence[str]) -> None:
        self.grid, self.numbers, self.devices = grid, list(numbers), list(devices)
        every = grid.shard_coordinates()
        self.coordinates = [every[number] for number in self.numbers]
        self._index = {number: index for index, number in enumerate(self.numbers)}

    @property
    def is_between_processes(self) -> bool:
        """Whether other processes compute some of the shards."""
        return len(self.numbers) < self.grid.num_shards

    def begin(self, turn: tf.Tensor | None) -> None:  # noqa: B027  most transports have nothing to begin
        """Begins the graph of a program.

        Args:
          turn: Tensor[] int32, the parity of the call if there are several processes, else None.
        """

    def end(self) -> list[tf.Operation]:
        """Returns, once, the operations that the current graph must run, even if nothing depends on them."""
        return []

    @property
    def within_turn(self) -> "Transport":
        """The transport between the shards of one turn, for values that are equal in all turns."""
        return self

    def axes_of(self, x: tf.Tensor) -> frozenset[int]:
        """Returns the mesh dimensions along which a tensor may differ between turns."""
        return frozenset()

    def part(self, whole: tf.Tensor, split: Sequence[int | None]) -> tf.Tensor:
        """Returns the part of a tensor that belongs to the current turn; `split` as in `meshes.whole`."""
        return whole

    def joined(self, part: tf.Tensor, split: Sequence[int | None]) -> tf.Tensor:
        """Joins the parts of all turns; the inverse of `part`."""
        return part

    def watched(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context for calls to a program, in which a lost process raises an error that names it."""
        return contextlib.nullcontext()

    def index(self, shard: int) -> int | None:
        """Returns the index of a shard in this process's lists; None if another process computes it."""
        return self._index.get(shard)

    def groups(self, axes: Collection[int]) -> list[list[int]]:
        """Returns the groups of shards that differ only along `axes` and include a shard of this process."""
        return [self.grid.group(at, axes) for at in self.grid.first_members(self.coordinates, axes)]

    @abc.abstractmethod
    def reduce(
        self, values: Sequence[tf.Tensor], axes: Collection[int], reduction: str, everywhere: bool = True
    ) -> list[tf.Tensor]:
        """Combines the values of shards that differ only along mesh dimensions `axes`; each of them gets the result.

        Args:
          values: a tensor for each shard of this process, all of one shape.
          axes: the mesh dimensions.
          reduction: "SUM", "MAX" or "MIN".
          everywhere: whether most shards read the result. If only one does, such as the shard that keeps a weight, the
            values should be sent to that shard directly.
        """

    @abc.abstractmethod
    def gather(self, values: Sequence[tf.Tensor], axis: int, dim: int) -> list[tf.Tensor]:
        """Concatenates the values of shards that differ only along mesh dimension `axis`; each of them gets the result.

        Args:
          values: a tensor for each shard of this process, all of one shape.
          axis: the mesh dimension.
          dim: the dimension of the tensors along which to concatenate.
        """

    @abc.abstractmethod
    def exchange(self, messages: Sequence[Message], values: Sequence[tf.Tensor]) -> list[tf.Tensor | None]:
        """Sends messages, all of one dtype.

        Args:
          messages: the messages of all groups of `groups`, in the same order in every process.
          values: for each shard of this process, the tensor from which its messages are made.

        Returns:
          The tensor of each message, or None if its target is not in this process.
        """
