"""The 3D U-Net: an encoder and a decoder, with a skip connection at each resolution."""

import dataclasses
import functools
import math
from collections.abc import Sequence

import gin
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.tasks import OpenBiases
from mtf_imaging.models.unet3d import resolution
from mtf_imaging.parameters import parameter

_CLASSES = 3  # background, liver and lesion


@gin.configurable(module="unet3d")
@dataclasses.dataclass(frozen=True)
class UNet3D(OpenBiases):
    """A 3D or 2D U-Net, which creates its weights when it is called on a tensor of a program.

    A block repeats `convs` times: convolution, norm, leaky ReLU and dropout. The first convolution and the last one
    before the classes have no dropout. Level l has `base_filters 2^l` filters, at 1 / 2^l of the resolution.

    Images of any size are accepted. Each level halves the sizes of the previous one and rounds up: 67 voxels become 34,
    17 and 9. The decoder returns to the same sizes. For 2-D images, all convolutions and pools are 2-D.

    `kernel_sizes` and `pool_sizes` fit the network to voxels that are longer along one axis, as in nnU-Net (Isensee et
    al. 2021). `residual` selects the encoder of nnU-Net's residual presets (Isensee et al. 2024, arXiv:2404.09556).

    Attributes:
      classes: number of classes. None selects the number that the task needs; without a task, it is 3.
      base_filters: number of filters of the first block.
      depth: number of resolutions.
      convs: number of convolutions in a block.
      kernel_size: size of the kernels in voxels along each dimension.
      norm: "batch", "instance", "group" or "none". Instance and group norm use the statistics of one case, so they are
        the same in training and prediction, and do not depend on micro-batches.
      norm_groups: number of channel groups of the group norm.
      norm_momentum: fraction of the moving statistics that each update of a batch norm keeps.
      norm_epsilon: number that norms add to the variance.
      negative_slope: slope of the leaky ReLU for negative values. A slope of 0 is the ReLU.
      dropout_rate: fraction of the activations that dropout sets to zero in training. A rate of 0 disables dropout.
      gather_below: minimum size of a slice in voxels. If a level would have smaller slices along a dimension, the
        dimension is gathered for this level and all deeper levels. All processors along it then do the same work. With
        0, nothing is gathered, and in a level with fewer voxels than slices, some processors have no work.
      double_before_pool: whether the last convolution of each encoder block doubles the number of filters, and
        transposed convolutions keep it (Cicek et al. 2016, arXiv:1606.06650). If False, both change it with the level.
      recompute: whether the backward pass recomputes the activations of all blocks but the last, which saves memory at
        the cost of one more forward pass (`mi.ops.recompute`).
      deep_supervision: number of coarser decoder levels that also return logits in training, each through a 1 x 1 x 1
        convolution. True selects `depth - 3`, all but the two coarsest levels, as in nnU-Net; False selects none. At
        most `depth - 2` are possible. Prediction does not use these logits.
      kernel_sizes: sizes of the kernels along x, y and z for each level, such as `((3, 3, 1), (3, 3, 3))` for 2 levels.
        They apply to the encoder and the decoder. None uses `kernel_size` everywhere. 2-D images use the sizes along x
        and y.
      pool_sizes: sizes of the pools along x, y and z between each level and the next one, such as `((2, 2, 1),)` for 2
        levels: 2 halves an axis, and 1 keeps it. None halves all axes. 2-D images use the sizes along x and y.
      max_filters: the largest number of filters of a level, which caps `base_filters 2^l`. None sets no cap.
      residual: whether the encoder consists of residual blocks: the input of a block is added to its last convolution,
        after the norm and before the leaky ReLU (He et al. 2016). Where a block changes the number of channels, a
        1 x 1 x 1 convolution with a norm changes it in the input as well.
      class_biases: initial bias of each class. None selects 0 or, in training, the biases that follow from the class
          frequencies (`class_biases.softmax_biases`).
    """

    classes: int | None = None
    base_filters: int = 32
    depth: int = parameter(4, most=16)
    convs: int = 2
    kernel_size: int = 3
    norm: str = parameter("batch", choices=("batch", "instance", "group", "none"))
    norm_groups: int = 8
    norm_momentum: float = parameter(0.9, least=0, below=1)
    norm_epsilon: float = 1e-6
    negative_slope: float = parameter(0.1, least=0)
    dropout_rate: float = parameter(0.5, least=0, below=1)
    gather_below: int = parameter(0, least=0)
    double_before_pool: bool = False
    recompute: bool = False
    deep_supervision: bool | int = parameter(False, least=0)
    kernel_sizes: Sequence[Sequence[int]] | None = None
    pool_sizes: Sequence[Sequence[int]] | None = parameter(None, most=2, can_be_empty=True)
    max_filters: int | None = None
    residual: bool = False
    class_biases: tuple[float, ...] | None = parameter(None, least=-math.inf)

    def __post_init__(self):
        super().__post_init__()
        for name, number in (("kernel_sizes", self.depth), ("pool_sizes", self.depth - 1)):
            sizes = getattr(self, name)
            if sizes is not None and not (len(sizes) == number and all(len(each) == 3 for each in sizes)):
                raise mi.ConfigError(
                    f"UNet3D.{name} = {sizes!r}: with UNet3D.depth = {self.depth}, it must be None, or have {number} "
                    "tuples of 3 sizes, along x, y and z. For 2-D images, the size along z has no effect."
                )
        available = max(self.depth - 2, 0)
        if self.deep_supervision and not 1 <= self._supervised <= available:
            raise mi.ConfigError(
                f"UNet3D.deep_supervision = {self.deep_supervision!r}: with UNet3D.depth = {self.depth}, the decoder "
                f"has {available} levels that are coarser than the image; True needs 2. Fix: use a larger depth, or "
                "False."
            )

    def __call__(self, image, is_training):
        """Computes the logits of all classes.

        Args:
          image: Tensor[batch, x, y, z, channels], or without z.
          is_training: whether dropout is active, and norms use the statistics of the batch and update their moving
            statistics.

        Returns:
          logits Tensor[batch, x, y, z, classes], without z if the image has none. In training with `deep_supervision`,
          it is a list of logits, each at the resolution of the next level (`level_strides`).
        """
        with tf.compat.v1.variable_scope("unet3d"):
            x, skips, coarser = image, [], []
            again = mi.ops.recompute if self.recompute and is_training else _call
            for level in range(self.depth):
                if level:
                    skips.append(x)
                x = again(functools.partial(self._down, level, is_training), x)
            for level in reversed(range(self.depth - 1)):
                again = again if level else _call  # The backward pass uses the last block's activations first.
                x = again(functools.partial(self._up, level, is_training), x, skips.pop())
                if is_training and 0 < level <= self._supervised:
                    coarser.insert(0, self._logits(x, f"classes{level}"))
            logits = self._logits(x, "classes")
            return [logits, *coarser] if coarser else logits

    @property
    def level_strides(self):
        """The strides of each level along x, y and z, relative to the image: the products of the pool sizes.

        >>> UNet3D(depth=3, pool_sizes=((2, 2, 1), (2, 2, 2))).level_strides
        ((1, 1, 1), (2, 2, 1), (4, 4, 2))
        """
        pools = self._pools
        return tuple(
            tuple(math.prod(pool[axis] for pool in pools[:level]) for axis in range(3)) for level in range(self.depth)
        )

    @property
    def _pools(self):
        """The sizes of the pools along x, y and z, from the finest level to the coarsest."""
        return ((2, 2, 2),) * (self.depth - 1) if self.pool_sizes is None else self.pool_sizes

    @property
    def _supervised(self):
        """The coarsest level that returns logits."""
        return self.depth - 3 if self.deep_supervision is True else int(self.deep_supervision)

    def _logits(self, x, name):
        biases = 0.0 if self.class_biases is None else self.class_biases
        return mi.layers.Conv(self.classes or _CLASSES, 1, bias_initializer=biases, output_name="classes", name=name)(x)

    def _down(self, level, is_training, x):
        if level:
            x = resolution.pool(x, f"pool{level}", self.gather_below, self._pools[level - 1])
        filters = [self._number(level)] * (self.convs - 1) + [self._filters(level)]
        return self._block(x, f"down{level}", level, filters, is_training, first=level == 0, residual=self.residual)

    def _up(self, level, is_training, x, skip):
        filters = self._filters(level + self.double_before_pool)
        x = resolution.grow(x, skip, f"grow{level}", filters, self._pools[level])
        x = mi.layers.concat([x, skip])
        return self._block(x, f"up{level}", level, [self._filters(level)] * self.convs, is_training, last=level == 0)

    def _filters(self, level):
        """Returns the number of filters of a block's last convolution."""
        return self._number(level + self.double_before_pool)

    def _number(self, doublings):
        """Returns the number of filters after a number of doublings."""
        number = self.base_filters * 2**doublings
        return number if self.max_filters is None else min(number, self.max_filters)

    def _block(self, x, name, level, filters, is_training, first=False, last=False, residual=False):
        kernel_size = self.kernel_size if self.kernel_sizes is None else self.kernel_sizes[level]
        image = x
        with tf.compat.v1.variable_scope(name):
            for i, number in enumerate(filters):
                x = self._conv(x, f"conv{i}", number, kernel_size)
                x = self._normalize(x, f"norm{i}", is_training)
                if residual and i == self.convs - 1:
                    x += self._shortcut(image, number, is_training)
                x = mi.ops.leaky_relu(x, self.negative_slope)
                skip_dropout = (first and i == 0) or (last and i == self.convs - 1)
                if is_training and self.dropout_rate and not skip_dropout:
                    x = mi.ops.dropout(x, self.dropout_rate, name=f"{name}/dropout{i}")
        return x

    def _shortcut(self, x, filters, is_training):
        """Returns the input of a residual block with the number of channels of its result."""
        if x.shape.dims[-1].size == filters:
            return x
        return self._normalize(self._conv(x, "shortcut", filters, 1), "shortcut_norm", is_training)

    def _conv(self, x, name, filters, kernel_size):
        sizes = resolution.per_axis(x, kernel_size)
        return mi.layers.Conv(filters, sizes, use_bias=self.norm == "none", name=name)(x)

    def _normalize(self, x, name, is_training):
        if self.norm == "none":
            return x
        groups = self.norm_groups if self.norm == "group" else None
        return mi.layers.Norm(self.norm, groups, self.norm_epsilon, is_training, self.norm_momentum, name)(x)


def _call(fn, *inputs):
    return fn(*inputs)
