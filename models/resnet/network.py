"""The classifier: a residual network, the mean over the image, and a dense layer."""

import dataclasses

import gin
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.backbones.conv_norm import PADDINGS
from mtf_imaging.models.backbones.residual import ResNetBackbone
from mtf_imaging.parameters import parameter


@gin.configurable(module="resnet")
@dataclasses.dataclass(frozen=True, kw_only=True)
class ResNet(ResNetBackbone):
    """A residual network for classification, which creates its weights when it is called on a tensor of a program.

    It consists of a `ResNetBackbone` with different defaults, the mean over the image, and a dense layer. The default
    is ResNet-18. ResNet-50 has `blocks` (3, 4, 6, 3) and bottlenecks.

    Attributes:
      classes: number of classes.
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
      output_stride: largest stride of a stage, 8, 16 or 32. Stages that would exceed it keep the resolution, and dilate
        their 3 x 3 convolutions by 2, 4 and so on instead. With None, no stage does so.
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

    classes: int = 1000
    blocks: tuple[int, ...] = (2, 2, 2, 2)
    bottleneck: bool = False
    padding: str = parameter("same", choices=PADDINGS)
    norm_momentum: float = parameter(0.9, least=0, below=1)

    def __call__(self, image, is_training):
        """Computes the logits of all classes.

        Args:
          image: Tensor[batch, height, width, channels]
          is_training: whether norms use the statistics of the batch and update their moving statistics.

        Returns:
          logits Tensor[batch, classes]
        """
        features = self.features(image, is_training)
        with tf.compat.v1.variable_scope("resnet"):
            classes = mi.layers.Dense(self.classes, output_name="classes", name="classes")
            return classes(mi.ops.global_avg_pool(features[-1]))
