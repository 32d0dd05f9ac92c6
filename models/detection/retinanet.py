"""The network RetinaNet: a backbone, a feature pyramid, and heads that predict a class and a box for each anchor."""

import dataclasses
import math

import gin
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.detection.anchors import COORDS, Anchors
from mtf_imaging.models.detection.pyramid_network import PyramidNetwork

_CLASSES = 90  # the classes of COCO, including unused numbers
_PRIOR = 0.01  # the initial probability of each class, so that the many negative anchors have a small first loss


@gin.configurable(module="detection")
@dataclasses.dataclass(frozen=True)
class RetinaNet(PyramidNetwork):
    """A network that detects objects in one stage (Lin et al. 2017, arXiv:1708.02002).

    - The backbone computes features at decreasing resolutions.
    - A feature pyramid (`FeaturePyramid`) converts them to features of the same depth, at the levels `min_level` to
      `max_level`. Level l has a stride of 2^l pixels.
    - Two heads predict class logits and a box for each anchor of each pixel, at every level.

    Images may have any size. Every operation can be split along height and width, at every level.

    The weights of the backbone have the same names as without RetinaNet.

    Attributes:
      backbone: an object with a method `features(image, is_training)`, which returns Tensors[batch, height, width,
        channels], and with `strides`, the stride of each of them.
      classes: number of classes, without background. None selects the number that the task needs, or 90 without a task.
      filters: number of channels of the levels, and number of filters in the heads.
      head_convs: number of convolutions with a norm in each head.
      min_level: the finest level.
      max_level: the coarsest level.
      anchors: the `Anchors` of each pixel. None selects 9 anchors, with 3 scales and 3 ratios.
      norm_momentum: fraction of the moving statistics that each update of a batch norm keeps, in the pyramid and in the
        heads.
      norm_epsilon: number that these batch norms add to the variance.
      gather_below: minimum size in pixels of a slice of a level. Dimensions with smaller slices are gathered, from the
        3 x 3 convolution of the level on, and all processors along them compute the same heads. With 0, nothing is
        gathered, and some processors have no work at levels with fewer pixels than slices.
    """

    head_convs: int = 4

    def __call__(self, image, is_training):
        """Computes the predictions for all anchors.

        Args:
          image: Tensor[batch, height, width, channels]
          is_training: whether norms use the statistics of the batch and update their moving statistics.

        Returns:
          A list with a pair for each level: class logits Tensor[batch, height, width, anchors, classes], and box deltas
          Tensor[batch, height, width, anchors, coords], both float32 or larger. A gathered dimension has the name of
          `mi.ops.gather_slices`.
        """
        levels = self._pyramid_of(self.backbone.features(image, is_training), is_training)
        return [self._heads(x, level, is_training) for level, x in zip(self.pyramid.levels, levels)]

    def anchor_boxes(self, predictions, image_sizes):
        """Returns the `LevelAnchors` of each level.

        Args:
          predictions: the result of calling this network.
          image_sizes: height and width of the image in pixels.
        """
        levels = zip(self.pyramid.levels, predictions)
        return [self._anchors.boxes(logits, 2**level, image_sizes) for level, (logits, _) in levels]

    @property
    def _anchors(self):
        return self.anchors or Anchors()

    def _heads(self, x, level, is_training):
        """Computes the predictions for the anchors of a level.

        A head has several 3 x 3 convolutions, each with a batch norm and a ReLU, and a last 3 x 3 convolution. All
        levels share the weights of the convolutions, but each level has its own batch norms.

        Args:
          x: Tensor[batch, height, width, channels]
          level: index of the level, which selects the batch norms.
          is_training: whether norms use the statistics of the batch and update their moving statistics.

        Returns:
          Class logits Tensor[batch, height, width, anchors, classes], and box deltas Tensor[batch, height, width,
          anchors, coords], both float32 or larger.
        """
        classes = mi.mtf.Dimension("classes", self.classes or _CLASSES)
        bias = -math.log((1 - _PRIOR) / _PRIOR)
        return (
            self._head(x, "class", level, is_training, classes, bias),
            self._head(x, "box", level, is_training, COORDS, 0.0),
        )

    def _head(self, x, name, level, is_training, outputs, bias):
        """Computes Tensor[batch, height, width, anchors, outputs]."""
        anchors = mi.mtf.Dimension("anchors", self._anchors.per_cell)
        with tf.compat.v1.variable_scope(f"{name}_head"):
            for i in range(self.head_convs):
                x = _conv(x, f"conv{i}", self.filters, 0.01)
                norm = f"conv{i}_level{level}_norm"
                x = mi.ops.relu(mi.ops.batch_norm(x, is_training, self.norm_momentum, self.norm_epsilon, name=norm))
            x = _conv(x, "predictions", anchors.size * outputs.size, 1e-5, bias)
        y = mi.mtf.reshape(x, mi.mtf.Shape([*x.shape.dims[:-1], anchors, outputs]))
        return mi.layers.widen(y)


def _conv(x, name, filters, stddev, bias=0.0):
    """Computes a 3 x 3 convolution. Calls with the same name in the same scope share their weights."""
    normal = tf.compat.v1.random_normal_initializer(stddev=stddev)
    return mi.layers.Conv(filters, kernel_initializer=normal, bias_initializer=bias, name=name)(x)
