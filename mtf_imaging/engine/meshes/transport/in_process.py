"""Moves tensors between shards of one process."""

from collections.abc import Callable, Collection, Sequence

import tensorflow as tf

from mtf_imaging.engine.meshes.grid import ShardGrid
from mtf_imaging.engine.meshes.transport.transport import Message, Transport

# How to combine a list of tensors.
_COMBINE: dict[str, Callable[[Sequence[tf.Tensor]], tf.Tensor]] = {
    "SUM": tf.add_n,
    "MAX": lambda xs: tf.reduce_max(tf.stack(xs), axis=0),
    "MIN": lambda xs: tf.reduce_min(tf.stack(xs), axis=0),
}


class InProcess(Transport):
    """Moves tensors between devices of this process.

    TensorFlow copies a tensor to another device when an operation there reads it.

    Args:
      grid: the division of the mesh into shards.
      devices: the device of each shard.
    """

    def __init__(self, grid: ShardGrid, devices: Sequence[str]) -> None:
        super().__init__(grid, range(grid.num_shards), devices)

    def reduce(
        self, values: Sequence[tf.Tensor], axes: Collection[int], reduction: str, everywhere: bool = True
    ) -> list[tf.Tensor]:
        combine, results = _COMBINE[reduction], list(values)
        for group in self.groups(axes):
            if len(group) == 1:
                continue
            inputs = [values[shard] for shard in group]
            if everywhere:
                with tf.device(self.devices[group[0]]):
                    total = combine(inputs)
            for shard in group:
                with tf.device(self.devices[shard]):
                    # Results that no operation reads are pruned, together with the copies of their inputs.
                    results[shard] = tf.identity(total) if everywhere else combine(inputs)
        return results

    def gather(self, values: Sequence[tf.Tensor], axis: int, dim: int) -> list[tf.Tensor]:
        results = list(values)
        for group in self.groups([axis]):
            for shard in group:
                if len(group) > 1:
                    with tf.device(self.devices[shard]):
                        results[shard] = tf.concat([values[other] for other in group], dim)
        return results

    def exchange(self, messages: Sequence[Message], values: Sequence[tf.Tensor]) -> list[tf.Tensor | None]:
        results: list[tf.Tensor | None] = []
        for message in messages:
            # On another device, TensorFlow would send the whole tensor from which the message is cut.
            with tf.device(self.devices[message.source]):
                results.append(message.make(message.source))
        return results
