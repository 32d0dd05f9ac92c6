"""Xception-65: separable convolutions with shortcuts (Chollet 2017, as modified in DeepLab v3+, Chen et al. 2018)."""

import dataclasses
import functools
from typing import NamedTuple

import gin
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.backbones.backbone import Backbone


class _Block(NamedTuple):
    """A block of three separable convolutions.

    Attributes:
      name: scope of the weights.
      filters: number of filters of each separable convolution, with 32 `base_filters`.
      stride: stride of the last separable convolution.
      shortcut: "conv" adds the input after a 1 x 1 convolution with the same stride, "sum" adds the input itself, and
        "none" adds nothing.
      feature: the contribution of the block to the features: "second", the result of its second separable convolution;
          "result", its own result; or "", none.
    """

    name: str
    filters: tuple[int, int, int]
    stride: int
    shortcut: str
    feature: str


_ENTRY = (
    _Block("entry0", (128, 128, 128), 2, "conv", ""),
    _Block("entry1", (256, 256, 256), 2, "conv", "second"),
    _Block("entry2", (728, 728, 728), 2, "conv", "second"),
)
_MIDDLE = _Block("middle", (728, 728, 728), 1, "sum", "")
_EXIT = (
    _Block("exit0", (728, 1024, 1024), 2, "conv", ""),
    _Block("exit1", (1536, 1536, 2048), 1, "none", "result"),
)


@gin.configurable(module="resnet")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Xception(Backbone):
    """Xception-65 as a backbone, which creates its weights when `features` is called.

    - The stem has a 3 x 3 convolution with stride 2 and 32 filters, and one with 64 filters.
    - Three entry blocks of 128, 256 and 728 filters each halve the image. `middle_blocks` blocks of 728 filters keep
      its size. Two exit blocks with up to 1024 and 2048 filters follow; the first one halves the image.
    - A block has three separable convolutions: a 3 x 3 depthwise and a 1 x 1 convolution, each with a batch norm. The
      last depthwise convolution has the stride. A ReLU precedes each separable convolution. In the last exit block, a
      ReLU follows each norm instead.

    Attributes:
      base_filters: number of filters of the first convolution. All others have the numbers above, multiplied by
          `base_filters / 32` and rounded.
      middle_blocks: number of middle blocks.
      padding: padding of strided convolutions. "fixed" does not depend on the size of the image, as in the published
        network; "same" is TensorFlow's "SAME".
      output_stride: largest stride of a feature, 8, 16 or 32. Blocks that would exceed it keep the resolution, and the
        blocks after them dilate their depthwise convolutions by 2 or 4 instead. With None, no block does so.
      norm_momentum: fraction of the moving statistics that each update of a batch norm keeps.
      norm_epsilon: number that batch norms add to the variance.
      gather_below: minimum size of a slice in pixels. If a strided operation would make smaller slices along a
        dimension, the dimension is gathered for this operation and all that follow. All processors along it then do
        the same work. With 0, nothing is gathered, and in a block with fewer pixels than slices, some processors have
        no work.
      recompute: whether the backward pass recomputes the activations of the stem and of each block, which saves memory
        at the cost of one more forward pass (`mi.ops.recompute`).
    """

    base_filters: int = 32
    middle_blocks: int = 16
    norm_epsilon: float = 1e-3

    def features(self, image, is_training):
        """Computes the features before each stride, from the second entry block on.

        Args:
          image: Tensor[batch, height, width, channels]
          is_training: whether norms use the statistics of the batch and update their moving statistics.

        Returns:
          A tuple of four Tensor[batch, height / stride, width / stride, channels], with sizes rounded up, the strides
          of `strides`, and 256, 728, 728 and 2048 channels:

          - the second separable convolution of the second entry block, without a ReLU,
          - the second separable convolution of the third entry block, without a ReLU,
          - the result of the middle blocks,
          - the result of the last exit block.

          A gathered dimension has the name of `mi.ops.gather_slices` from its first such feature on.
        """
        conv_norm, features = self._conv_norm(is_training), []
        with tf.compat.v1.variable_scope("xception"):
            x = self._run(is_training, functools.partial(self._stem, conv_norm), image)
            stride = 2
            for block in self._blocks():
                before, dilation = self._limited(stride)
                stride *= block.stride
                block = block._replace(stride=self._limited(stride)[0] // before)
                x, *second = self._run(is_training, functools.partial(self._block, conv_norm, block, dilation), x)
                features += [x] if block.feature == "result" else second
        return tuple(features)

    @property
    def strides(self):
        """The stride of each feature: the first is 4, and the last is at most `output_stride`."""
        return tuple(self._limited(stride)[0] for stride in (4, 8, 16, 32))

    def _blocks(self):
        middle = [_MIDDLE._replace(name=f"middle{i}") for i in range(self.middle_blocks)]
        middle[-1] = middle[-1]._replace(feature="result")
        return [*_ENTRY, *middle, *_EXIT]

    def _filters(self, number):
        """Scales a number of filters that is given for 32 `base_filters`."""
        return max(1, round(number * self.base_filters / 32))

    def _stem(self, conv_norm, image):
        x = conv_norm.gather(image, "conv0", 2)
        x = mi.ops.relu(conv_norm(x, "conv0", self._filters(32), 3, 2))
        return mi.ops.relu(conv_norm(x, "conv1", self._filters(64), 3))

    def _block(self, conv_norm, block, dilation, x):
        """Returns the result of a block, and the result of its second separable convolution if that is a feature."""
        x = conv_norm.gather(x, block.name, block.stride)
        with tf.compat.v1.variable_scope(block.name):
            y, results, relu_inside = x, [], block.shortcut == "none"
            for i, (filters, stride) in enumerate(zip(block.filters, (1, 1, block.stride))):
                y = y if relu_inside else mi.ops.relu(y)
                y = conv_norm.separable(y, f"conv{i}", self._filters(filters), stride, dilation, relu_inside)
                results.append(y)
            if block.shortcut == "conv":
                x = conv_norm(x, "shortcut", self._filters(block.filters[-1]), 1, block.stride)
            y = y if block.shortcut == "none" else x + y
            return [y, results[1]] if block.feature == "second" else [y]
