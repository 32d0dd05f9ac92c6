"""The step that every contender takes: a 3D U-Net, its weights and a batch. Needs no framework: all can share it.

The network is that of `models/unet3d`; a contender that cannot use it builds its own from this description.
"""

import dataclasses
import zlib
from collections.abc import Iterator

import numpy as np

NEGATIVE_SLOPE, EPSILON, MOMENTUM = 0.1, 1e-6, 0.9  # of the leaky ReLU; of batch norm, and of its moving statistics
CLASSES, KERNEL, LEARNING_RATE = 3, 3, 0.01


@dataclasses.dataclass(frozen=True)
class Network:
    """A network to compare with.

    Attributes:
      batch_norm: whether there is a batch norm after each convolution, which else has a bias.
      dropout_rate: the fraction of the activations that dropout sets to zero; 0 is no dropout.
    """

    batch_norm: bool
    dropout_rate: float


NETWORKS = {"N1": Network(batch_norm=False, dropout_rate=0.0), "N2": Network(batch_norm=True, dropout_rate=0.5)}


@dataclasses.dataclass(frozen=True)
class Step:
    """One training step: forward, mean cross entropy over all voxels, backward, and an update by SGD.

    Attributes:
      network: a key of `NETWORKS`.
      sizes: voxels along x, y and z.
      batch: volumes.
      base_filters, depth, convs: filters of the first block, resolutions, and convolutions a block.
      dtype: of the activations.
      dropout: False leaves it out, whatever the network: masks are drawn by each contender in its own way.
      seed: of the weights and the batch.
    """

    network: str
    sizes: tuple[int, int, int]
    batch: int = 1
    base_filters: int = 8
    depth: int = 4
    convs: int = 2
    dtype: str = "float32"
    dropout: bool = True
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
        """Whether dropout follows a convolution: not the network's first, nor the last before the classes."""
        return self.dropout_rate > 0 and (block, conv) not in {("down0", 0), ("up0", self.convs - 1)}

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Names and shapes of all trained weights: filters `[kernel..., in, out]`, transposed ones `[..., out, in]`."""

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

    def weights(self) -> dict[str, np.ndarray]:
        """The weights that every contender starts from: He-normal filters; others are near what they start from."""
        return {name: self._weight(name, shape) for name, shape in self.shapes()}

    def _weight(self, name, shape):
        rng = np.random.default_rng([self.seed, zlib.crc32(name.encode())])
        if name.endswith("filter"):
            fan_in = shape[-1] if name.startswith("grow") else int(np.prod(shape[:-1]))
            return rng.normal(0, np.sqrt(2 / fan_in), shape).astype(np.float32)
        return rng.normal(float(name.endswith("scale")), 0.1, shape).astype(np.float32)

    def inputs(self) -> tuple[np.ndarray, np.ndarray]:
        """image [batch, x, y, z, 1] in 0..1 and labels [batch, x, y, z]."""
        rng = np.random.default_rng(self.seed)
        image = rng.random((self.batch, *self.sizes, 1), np.float32)
        return image, rng.integers(0, CLASSES, (self.batch, *self.sizes), np.int32)
