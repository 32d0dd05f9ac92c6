"""The network: a stem, stages of residual blocks, each at half the resolution of the last, and a mean of it all."""

import dataclasses

import gin
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.resnet import layers


@gin.configurable(module="resnet")
@dataclasses.dataclass(frozen=True)
class ResNet:
    """A residual network; called on a tensor within a program, it makes its weights there.

    The stem is a convolution, norm, ReLU and a max pool of 3 x 3 with stride 2. A block adds to what it gets, or to a
    convolution of 1 x 1 and norm of it where that has another shape, two convolutions of 3 x 3 with norms, the first
    with a ReLU, and ends in one. Stage s has `base_filters 2^s` filters and halves the image, but for the first. The
    defaults are ResNet-18.

    Attributes:
      classes: number of classes.
      blocks: residual blocks of each stage.
      base_filters: filters of the stem and the first stage.
      stem_kernel: pixels along each axis of the stem's convolution.
      stem_stride: its stride.
      stem_pool: whether there is the pool.
      norm_momentum: of the batch norms' moving statistics.
      norm_epsilon: of the batch norms.
      gather_below: pixels. From the first stage on in which slices have fewer along an axis, or could not all have as
        many, each processor holds all of that axis, and does the work of all. 0 gathers nothing: a layout that splits
        a stage too far is refused.
    """

    classes: int = 1000
    blocks: tuple[int, ...] = (2, 2, 2, 2)
    base_filters: int = 64
    stem_kernel: int = 7
    stem_stride: int = 2
    stem_pool: bool = True
    norm_momentum: float = 0.9
    norm_epsilon: float = 1e-5
    gather_below: int = 0

    def __post_init__(self):
        for name in ("classes", "base_filters", "stem_kernel", "stem_stride"):
            if not _is_count(getattr(self, name)):
                raise mi.ConfigError(f"ResNet.{name} = {getattr(self, name)!r}: it must be a number, at least 1.")
        if not (isinstance(self.blocks, list | tuple) and self.blocks and all(map(_is_count, self.blocks))):
            raise mi.ConfigError(
                f"ResNet.blocks = {self.blocks!r}: it must be the number of blocks of each stage, at least 1. "
                "Fix: for instance (2, 2, 2, 2)."
            )
        if not 0 <= self.norm_momentum < 1:
            raise mi.ConfigError(f"ResNet.norm_momentum = {self.norm_momentum!r}: it must be from 0 to below 1.")
        if not self.norm_epsilon > 0:
            raise mi.ConfigError(f"ResNet.norm_epsilon = {self.norm_epsilon!r}: it must be above 0.")
        if not (self.gather_below == 0 or _is_count(self.gather_below)):
            raise mi.ConfigError(
                f"ResNet.gather_below = {self.gather_below!r}: it must be a number of pixels, or 0 to gather nothing."
            )

    def __call__(self, image, is_training):
        """Tensor[batch, height, width, channels] -> logits Tensor[batch, classes].

        Args:
          image: the images.
          is_training: whether norms use the batch's statistics and move their own.
        """
        with tf.compat.v1.variable_scope("resnet"):
            x = self._stem(image, is_training)
            for stage, number in enumerate(self.blocks):
                for block in range(number):
                    stride = 2 if stage and not block else 1
                    x = self._block(x, f"stage{stage}/block{block}", self.base_filters * 2**stage, stride, is_training)
            return layers.dense(layers.mean_over_image(x), "classes", self.classes)

    def _stem(self, x, is_training):
        x = self._gathered(x, "stem", self.stem_stride)
        x = self._conv_norm(x, "stem", self.base_filters, self.stem_kernel, self.stem_stride, is_training)
        x = mi.ops.leaky_relu(x, 0.0)
        if not self.stem_pool:
            return x
        return mi.ops.max_pool2d(self._gathered(x, "pool", 2), 3, 2, "SAME", name="pool")

    def _block(self, x, name, filters, stride, is_training):
        x = self._gathered(x, name, stride)
        with tf.compat.v1.variable_scope(name):
            y = mi.ops.leaky_relu(self._conv_norm(x, "conv0", filters, 3, stride, is_training), 0.0)
            y = self._conv_norm(y, "conv1", filters, 3, 1, is_training)
            if x.shape != y.shape:
                x = self._conv_norm(x, "shortcut", filters, 1, stride, is_training)
            return mi.ops.leaky_relu(x + y, 0.0)

    def _conv_norm(self, x, name, filters, kernel_size, stride, is_training):
        x = layers.conv(x, name, filters, kernel_size, stride)
        return mi.ops.batch_norm(x, is_training, self.norm_momentum, self.norm_epsilon, name=f"{name}_norm")

    def _gathered(self, x, name, stride):
        return layers.gather_small_slices(x, f"{name}_gather", stride, self.gather_below) if stride > 1 else x


def _is_count(value):
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
