"""The heads of RetinaNet: one subnet for the classes and one for the boxes, shared by all levels."""

import dataclasses
import math

import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.detection.anchors import COORDS

_PRIOR = 0.01  # the initial probability of each class, so that the many negative anchors have a small first loss


@dataclasses.dataclass(frozen=True)
class RetinaHeads:
    """The subnets that compute class logits and box deltas of the anchors. They create their weights when called.

    A subnet has several 3 x 3 convolutions, each with a batch norm and a ReLU, and a last 3 x 3 convolution. All levels
    share the weights of the convolutions, but each level has its own batch norms.

    Attributes:
      classes: number of classes.
      anchors: number of anchors of each pixel.
      filters: number of filters of each convolution with a norm.
      convs: number of these convolutions in each subnet.
      norm_momentum: fraction of the moving statistics that each update of a batch norm keeps.
      norm_epsilon: number that batch norms add to the variance.
    """

    classes: int
    anchors: int
    filters: int
    convs: int
    norm_momentum: float
    norm_epsilon: float

    def __call__(self, x, level, is_training):
        """Computes the predictions for the anchors of a level.

        Args:
          x: Tensor[batch, height, width, channels]
          level: index of the level, which selects the batch norms.
          is_training: whether norms use the statistics of the batch and update their moving statistics.

        Returns:
          Class logits Tensor[batch, height, width, anchors, classes], and box deltas Tensor[batch, height, width,
          anchors, coords], both float32 or larger.
        """
        classes = mi.mtf.Dimension("classes", self.classes)
        bias = -math.log((1 - _PRIOR) / _PRIOR)
        return (
            self._subnet(x, "class", level, is_training, classes, bias),
            self._subnet(x, "box", level, is_training, COORDS, 0.0),
        )

    def _subnet(self, x, name, level, is_training, outputs, bias):
        """Computes Tensor[batch, height, width, anchors, outputs]."""
        with tf.compat.v1.variable_scope(f"{name}_head"):
            for i in range(self.convs):
                x = _conv(x, f"conv{i}", self.filters, 0.01)
                norm = f"conv{i}_level{level}_norm"
                x = mi.ops.relu(mi.ops.batch_norm(x, is_training, self.norm_momentum, self.norm_epsilon, name=norm))
            x = _conv(x, "predictions", self.anchors * outputs.size, 1e-5, bias)
        anchors = mi.mtf.Dimension("anchors", self.anchors)
        y = mi.mtf.reshape(x, mi.mtf.Shape([*x.shape.dims[:-1], anchors, outputs]))
        return mi.layers.widen(y)


def _conv(x, name, filters, stddev, bias=0.0):
    """Computes a 3 x 3 convolution. Calls with the same name in the same scope share their weights."""
    normal = tf.compat.v1.random_normal_initializer(stddev=stddev)
    return mi.layers.Conv(filters, kernel_initializer=normal, bias_initializer=bias, name=name)(x)
