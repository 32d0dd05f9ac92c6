"""The residual network: a stem, stages of residual blocks at decreasing resolutions, and the mean over the image."""

import dataclasses

import gin
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.resnet import layers


@gin.configurable(module="resnet")
@dataclasses.dataclass(frozen=True)
class ResNet:
    """A residual network, which creates its weights when it is called on a tensor of a program.

    - The stem is a convolution, a norm, a ReLU, and a 3 x 3 max pool with stride 2.
    - A block computes a 3 x 3 convolution, a norm, a ReLU, a second 3 x 3 convolution and a norm. It adds its input and
      applies a ReLU. If the input has another shape, a 1 x 1 convolution and a norm convert it first.
    - Stage s has `base_filters 2^s` filters. Every stage but the first halves the image,
      and rounds its sizes up.

    The default is ResNet-18.

    Attributes:
      classes: number of classes.
      blocks: number of residual blocks in each stage.
      base_filters: number of filters of the stem and the first stage.
      stem_kernel: kernel size of the stem's convolution in pixels.
      stem_stride: stride of the stem's convolution in pixels.
      stem_pool: whether the stem has a max pool.
      norm_momentum: fraction of the moving statistics that each update of a batch norm keeps.
      norm_epsilon: number that batch norms add to the variance.
      gather_below: minimum size of a slice in pixels. If a stage would have smaller slices along a dimension, the
        dimension is gathered for this stage and all that follow. All processors along it then do the same work. With 0,
        nothing is gathered, and in a stage with fewer pixels than slices, some processors have no work.
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
                raise mi.ConfigError(f"ResNet.{name} = {getattr(self, name)!r}: it must be an int of at least 1.")
        if not (isinstance(self.blocks, list | tuple) and self.blocks and all(map(_is_count, self.blocks))):
            raise mi.ConfigError(
                f"ResNet.blocks = {self.blocks!r}: it must be a tuple with the number of blocks of each stage, at "
                "least 1. Fix: use a tuple such as (2, 2, 2, 2)."
            )
        if not 0 <= self.norm_momentum < 1:
            raise mi.ConfigError(f"ResNet.norm_momentum = {self.norm_momentum!r}: it must be at least 0 and below 1.")
        if not self.norm_epsilon > 0:
            raise mi.ConfigError(f"ResNet.norm_epsilon = {self.norm_epsilon!r}: it must be above 0.")
        if not (self.gather_below == 0 or _is_count(self.gather_below)):
            raise mi.ConfigError(
                f"ResNet.gather_below = {self.gather_below!r}: it must be an int of at least 0 pixels. "
                "Fix: use 0 to gather nothing."
            )

    def __call__(self, image, is_training):
        """Computes the logits of all classes.

        Args:
          image: Tensor[batch, height, width, channels]
          is_training: whether norms use the statistics of the batch and update their moving statistics.

        Returns:
          logits Tensor[batch, classes]
        """
        with tf.compat.v1.variable_scope("resnet"):
            x = self._stem(image, is_training)
            for stage, number in enumerate(self.blocks):
                for block in range(number):
                    stride = 2 if stage and not block else 1
                    x = self._block(x, f"stage{stage}/block{block}", self.base_filters * 2**stage, stride, is_training)
            return layers.dense(layers.mean_over_image(x), "classes", self.classes)

    def _stem(self, x, is_training):
        x = self._gather(x, "stem", self.stem_stride)
        x = self._conv_norm(x, "stem", self.base_filters, self.stem_kernel, self.stem_stride, is_training)
        x = mi.ops.leaky_relu(x, 0.0)
        if not self.stem_pool:
            return x
        return mi.ops.max_pool2d(self._gather(x, "pool", 2), 3, 2, "SAME", name="pool")

    def _block(self, x, name, filters, stride, is_training):
        x = self._gather(x, name, stride)
        with tf.compat.v1.variable_scope(name):
            y = mi.ops.leaky_relu(self._conv_norm(x, "conv0", filters, 3, stride, is_training), 0.0)
            y = self._conv_norm(y, "conv1", filters, 3, 1, is_training)
            if x.shape != y.shape:
                x = self._conv_norm(x, "shortcut", filters, 1, stride, is_training)
            return mi.ops.leaky_relu(x + y, 0.0)

    def _conv_norm(self, x, name, filters, kernel_size, stride, is_training):
        x = layers.conv(x, name, filters, kernel_size, stride)
        return mi.ops.batch_norm(x, is_training, self.norm_momentum, self.norm_epsilon, name=f"{name}_norm")

    def _gather(self, x, name, stride):
        return layers.gather_small_slices(x, f"{name}_gather", stride, self.gather_below) if stride > 1 else x


def _is_count(value):
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
