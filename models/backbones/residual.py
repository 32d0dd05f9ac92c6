"""The residual network without its classifier: a stem, and stages of residual blocks at decreasing resolutions."""

import dataclasses
import functools

import gin
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.backbones.backbone import Backbone
from mtf_imaging.models.backbones.blocks import STEMS, STRIDED_CONVS, basic_block, bottleneck_block
from mtf_imaging.models.backbones.conv_norm import PADDINGS, window_padding
from mtf_imaging.parameters import parameter


@gin.configurable(module="resnet")
@dataclasses.dataclass(frozen=True, kw_only=True)
class ResNetBackbone(Backbone):
    """A residual network as a backbone, which creates its weights when `features` is called.

    - The stem reduces the image to a quarter of its size.
    - Stage s has blocks of `base_filters 2^s` filters. The first block of every stage but the first halves the sizes of
      the image, rounded up. In a bottleneck block, the 3 x 3 convolution has the stride by default. (In TF-Slim's
      `resnet_v1_beta`, the last block of the previous stage has the stride; the weights are the same.)

    The default is ResNet-50. ResNet-101 has `blocks` (3, 4, 23, 3), ResNet-152 (3, 8, 36, 3), and ResNet-18 has
    (2, 2, 2, 2) without bottlenecks.

    Attributes:
      blocks: number of residual blocks in each stage.
      bottleneck: whether a block has a 1 x 1, a 3 x 3 and a 1 x 1 convolution, the last with four times the filters. If
        False, it has two 3 x 3 convolutions.
      base_filters: number of filters of the stem and the first stage.
      stem: "7x7", a convolution with stride 2; or "v1-beta", three 3 x 3 convolutions, of which the first has stride 2
        and the last has twice the filters. A 3 x 3 max pool with stride 2 follows.
      padding: padding of strided convolutions. "fixed" does not depend on the size of the image, as in published
        networks; "same" is TensorFlow's "SAME".
      pool_padding: padding of the max pool, "same" or "fixed". Published networks differ: TensorFlow networks use
          "same", torchvision and Keras Applications networks use "fixed".
      strided_conv: the convolution of a bottleneck block that has the stride: "3x3"; or "1x1" for the first one, as in
          the Keras Applications networks.
      output_stride: largest stride of a feature, 8, 16 or 32. Stages that would exceed it keep the resolution, and
        dilate their 3 x 3 convolutions by 2, 4 and so on instead. With None, no stage does so.
      multigrid: factors of the dilation in the blocks of the last stage, if `output_stride` dilates it.
      norm_momentum: fraction of the moving statistics that each update of a batch norm keeps.
      norm_epsilon: number that batch norms add to the variance.
      gather_below: minimum size of a slice in pixels. If a strided operation would make smaller slices along a
        dimension, the dimension is gathered for this operation and all that follow. All processors along it then do
        the same work. With 0, nothing is gathered, and in a stage with fewer pixels than slices, some processors have
        no work.
      recompute: whether the backward pass recomputes the activations of the stem and of each block, which saves memory
        at the cost of one more forward pass (`mi.ops.recompute`).
    """

    blocks: tuple[int, ...] = (3, 4, 6, 3)
    bottleneck: bool = True
    stem: str = parameter("7x7", choices=tuple(STEMS))
    pool_padding: str = parameter("same", choices=PADDINGS)
    strided_conv: str = parameter("3x3", choices=STRIDED_CONVS)
    multigrid: tuple[int, ...] = (1, 2, 4)

    def __post_init__(self):
        super().__post_init__()
        if self._limited(self._nominal_strides[-1])[1] > 1 and len(self.multigrid) < self.blocks[-1]:
            raise mi.ConfigError(
                f"{type(self).__name__}.multigrid = {self.multigrid!r}: the last stage has "
                f"{self.blocks[-1]} blocks. Fix: give a factor for each block."
            )

    def features(self, image, is_training):
        """Computes the result of each stage.

        Args:
          image: Tensor[batch, height, width, channels]
          is_training: whether norms use the statistics of the batch and update their moving statistics.

        Returns:
          A tuple with a Tensor[batch, height / stride, width / stride, channels] for each stage, with sizes rounded up
          and the strides of `strides`. With four stages, the strides are 4, 8, 16 and 32, and the features are known
          as C2 to C5. Feature s has `base_filters 2^s` channels, and four times as many with bottlenecks. A gathered
          dimension has the name of `mi.ops.gather_slices` from its first such feature on.
        """
        conv_norm, features = self._conv_norm(is_training), []
        block_fn = basic_block
        if self.bottleneck:
            block_fn = functools.partial(bottleneck_block, strided_conv=self.strided_conv)
        with tf.compat.v1.variable_scope("resnet"):
            x = self._run(is_training, functools.partial(self._stem, conv_norm), image)
            for stage, dilations in enumerate(self._dilations()):
                for block, dilation in enumerate(dilations):
                    halves = stage > 0 and block == 0 and self.strides[stage] > self.strides[stage - 1]
                    size = (self.base_filters * 2**stage, 2 if halves else 1, dilation)
                    fn = functools.partial(_block, block_fn, conv_norm, f"stage{stage}/block{block}", *size)
                    x = self._run(is_training, fn, x)
                features.append(x)
        return tuple(features)

    @property
    def strides(self):
        """The stride of each feature: the first is 4, and the last is at most `output_stride`."""
        return tuple(self._limited(stride)[0] for stride in self._nominal_strides)

    @property
    def _nominal_strides(self):
        return [4 * 2**stage for stage in range(len(self.blocks))]

    def _stem(self, conv_norm, image):
        """Computes the convolutions of the stem and the pool: Tensor[batch, height / 4, width / 4, channels]."""
        x = conv_norm.gather(image, "stem", 2)
        for conv in STEMS[self.stem]:
            filters = self.base_filters * conv.factor
            x = mi.ops.relu(conv_norm(x, conv.name, filters, conv.kernel_size, conv.stride))
        padding = window_padding(self.pool_padding, 3, 2)
        return mi.ops.max_pool2d(conv_norm.gather(x, "pool", 2), 3, 2, padding, name="pool")

    def _dilations(self):
        """Returns the dilation of each block of each stage."""
        dilations = [self._limited(stride)[1] for stride in self._nominal_strides]
        rows = [[dilation] * number for dilation, number in zip(dilations, self.blocks)]
        if dilations[-1] > 1:
            rows[-1] = [dilations[-1] * factor for _, factor in zip(rows[-1], self.multigrid)]
        return rows


def _block(block_fn, conv_norm, name, filters, stride, dilation, x):
    x = conv_norm.gather(x, name, stride)
    with tf.compat.v1.variable_scope(name):
        return block_fn(conv_norm, x, filters, stride, dilation)
