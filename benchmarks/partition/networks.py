"""The training step of all contenders: a 3D U-Net, its weights and a batch, independent of any framework.

The network is the U-Net in `models/unet3d`; contenders that cannot use it build their own from this description.
"""

import dataclasses
import math
import zlib
from collections.abc import Iterator

import numpy as np

NEGATIVE_SLOPE, EPSILON, MOMENTUM = 0.1, 1e-6, 0.9  # leaky ReLU; batch norm; moving statistics
CLASSES, KERNEL, LEARNING_RATE = 3, 3, 0.01


@dataclasses.dataclass(frozen=True)
class Network:
    """A network of the comparison.

    Attributes:
      batch_norm: whether a batch norm follows each convolution; otherwise the convolutions have biases.
      dropout_rate: the fraction of the activations that dropout sets to zero; 0 for no dropout.
    """

    batch_norm: bool
    dropout_rate: float


NETWORKS = {"N1": Network(batch_norm=False, dropout_rate=0.0), "N2": Network(batch_norm=True, dropout_rate=0.5)}


@dataclasses.dataclass(frozen=True)
class Step:
    """One training step: forward, mean cross entropy over all voxels, backward, and an SGD update.

    Attributes:
      network: a key of `NETWORKS`.
      sizes: voxels along x, y and z.
      batch: number of volumes.
      base_filters: filters of the first block.
      depth: number of resolutions.
      convs: convolutions per block.
      dtype: the activation dtype.
      dropout: False omits the dropout of any network, because each contender draws its own masks.
      forward: whether the step ends with the loss, as a prediction does.
      seed: seed of the weights and the batch.
    """

    network: str
    sizes: tuple[int, int, int]
    batch: int = 1
    base_filters: int = 8
    depth: int = 4
    convs: int = 2
    dtype: str = "float32"
    dropout: bool = True
    forward: bool = False
    seed: int = 0

    @property
    def batch_norm(self) -> bool:
        return NETWORKS[self.network].batch_norm

    @property
    def dropout_rate(self) -> float:
        return NETWORKS[self.network].dropout_rate if self.dropout else 0.0

    def filters(self, level: int) -> int:
        return self.base_filters * 2**level

    def drops(self, block: str, conv: int) -> bool:
        """Returns whether dropout follows a convolution: all except the first and the last before the classes."""
        return self.dropout_rate > 0 and (block, conv) not in {("down0", 0), ("up0", self.convs - 1)}

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yields names and shapes of the weights: filters `[kernel..., in, out]`, transposed ones `[..., out, in]`."""

        def block(name, level, channels):
            for i in range(self.convs):
                yield f"{name}/conv{i}/filter", (*[KERNEL] * 3, channels, self.filters(level))
                channels = self.filters(level)
                names = (f"norm{i}/scale", f"norm{i}/offset") if self.batch_norm else (f"conv{i}/bias",)
                for of_channels in names:
                    yield f"{name}/{of_channels}", (channels,)

        channels = 1
        for level in range(self.depth):
            yield from block(f"down{level}", level, channels)
            channels = self.filters(level)
        for level in reversed(range(self.depth - 1)):
            yield f"grow{level}/filter", (2, 2, 2, self.filters(level), self.filters(level + 1))
            yield f"grow{level}/bias", (self.filters(level),)
            yield from block(f"up{level}", level, 2 * self.filters(level))
        yield "classes/filter", (1, 1, 1, self.base_filters, CLASSES)
        yield "classes/bias", (CLASSES,)

    @property
    def flops(self) -> int:
        """The floating-point operations of a step's convolutions, which are almost all of its operations.

        A convolution needs two operations per weight and voxel. Its two gradients need the same number each, but the
        first convolution has no gradient with respect to the image.
        """
        voxels = self.batch * math.prod(self.sizes)
        total = 0
        for name, shape in self.shapes():
            if not name.endswith("filter"):
                continue
            block = name.partition("/")[0]
            # A transposed convolution reads each voxel of the coarser level once.
            level = 0 if block == "classes" else int(block[-1]) + block.startswith("grow")
            passes = 1 if self.forward else 2 if name == "down0/conv0/filter" else 3
            total += passes * 2 * math.prod(shape) * voxels // 8**level
        return total

    def weights(self) -> dict[str, np.ndarray]:
        """Returns the initial weights: He-normal filters, scales near 1, and biases and offsets near 0."""
        return {name: self._weight(name, shape) for name, shape in self.shapes()}

    def _weight(self, name, shape):
        rng = np.random.default_rng([self.seed, zlib.crc32(name.encode())])
        if name.endswith("filter"):
            fan_in = shape[-1] if name.startswith("grow") else int(np.prod(shape[:-1]))
            return rng.normal(0, np.sqrt(2 / fan_in), shape).astype(np.float32)
        return rng.normal(float(name.endswith("scale")), 0.1, shape).astype(np.float32)

    def inputs(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the image `[batch, x, y, z, 1]` with values in 0..1, and the labels `[batch, x, y, z]`."""
        rng = np.random.default_rng(self.seed)
        image = rng.random((self.batch, *self.sizes, 1), np.float32)
        return image, rng.integers(0, CLASSES, (self.batch, *self.sizes), np.int32)
