"""The heads for regions of interest (RoIs): class, box and mask of each object."""

import dataclasses
import math

import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.detection.anchors import COORDS
from mtf_imaging.models.detection.head_layers import HeadLayers
from mtf_imaging.models.detection.sampling import ROIS

_CANONICAL_LEVEL = 4


@dataclasses.dataclass(frozen=True)
class RoIFeatures:
    """The levels of a feature pyramid from which RoIs take their features.

    Attributes:
      features: Tensors[batch, height, width, channels], one for each level.
      min_level: the first level. Level l has a stride of 2^l pixels.
      canonical_size: side in pixels of a square that belongs to level 4.
      aligned: the convention for the pixel centers of a level; see `mi.ops.roi_align`.
    """

    features: list
    min_level: int
    canonical_size: float
    aligned: bool

    def align(self, boxes, size, name):
        """Samples `size` x `size` features within each box. The maps stay split.

        Args:
          boxes: Tensor[batch, rois_whole, coords]
          size: number of bins along each axis.
          name: name of the operation.

        Returns:
          Tensor[batch, rois, crop_height, crop_width, channels]. A layout with a rule for `rois` splits it.
        """
        last = self.min_level + len(self.features) - 1
        levels = roi_levels(boxes, self.min_level, last, self.canonical_size)
        strides = [2**level for level in range(self.min_level, last + 1)]
        x = mi.ops.roi_align(self.features, boxes, levels, strides, size, aligned=self.aligned, name=name)
        return mi.ops.scatter_slices(x, ROIS, f"{name}_scatter")


@dataclasses.dataclass(frozen=True)
class BoxHead:
    """Convolutions and dense layers with ReLUs, the logits of the classes, and a box for each class.

    Attributes:
      layers: a `HeadLayers`.
      units: number of channels of each dense layer.
      classes: number of classes without the background, which is class 0.
      convs: number of 3 x 3 convolutions.
      filters: number of filters of each convolution.
      dense: number of dense layers.
    """

    layers: HeadLayers
    units: int
    classes: int
    convs: int = 0
    filters: int = 256
    dense: int = 2

    def __call__(self, x):
        """Computes the classes and the boxes of RoIs.

        Args:
          x: Tensor[batch, rois, crop_height, crop_width, channels]

        Returns:
          Class logits Tensor[batch, rois, classes], and the deltas from the RoIs to the boxes Tensor[batch, rois,
          classes, coords], both float32 or larger. The first class is the background.
        """
        classes = mi.mtf.Dimension("classes", self.classes + 1)
        with tf.compat.v1.variable_scope("box_head"):
            for i in range(self.convs):
                x = self.layers.conv(x, f"conv{i}", self.filters, 3)
            inputs = x.shape.dims[-3:]
            for i in range(self.dense):
                x = self.layers.dense(x, f"dense{i}", inputs, self.units)
                inputs = x.shape.dims[-1:]
            logits = self.layers.outputs(x, "classes", [classes], 0.01)
            return logits, self.layers.outputs(x, "boxes", [classes, COORDS], 0.001)


@dataclasses.dataclass(frozen=True)
class MaskHead:
    """3 x 3 convolutions, a transposed convolution that doubles the size, and the logits of a mask for each class.

    Attributes:
      layers: a `HeadLayers`.
      filters: number of filters of each convolution.
      convs: number of 3 x 3 convolutions.
      classes: number of classes without the background, which is class 0.
    """

    layers: HeadLayers
    filters: int
    convs: int
    classes: int

    def __call__(self, x, classes):
        """Computes the mask of each RoI for one class.

        Args:
          x: Tensor[batch, rois, crop_height, crop_width, channels]
          classes: int32 Tensor[batch, rois]; 0 is the background.

        Returns:
          logits Tensor[batch, rois, mask_height, mask_width], twice as large as `x`, float32 or larger.
        """
        with tf.compat.v1.variable_scope("mask_head"):
            for i in range(self.convs):
                x = self.layers.conv(x, f"conv{i}", self.filters, 3)
            x = self.layers.conv_transpose(x, "upsample", self.filters, 2)
            dim = mi.mtf.Dimension("classes", self.classes + 1)
            x = self.layers.outputs(x, "masks", [dim], (2 / dim.size) ** 0.5)
        *_, height, width, _ = x.shape.dims
        x = mi.mtf.gather(x, classes, dim)
        return mi.mtf.replace_dimensions(
            x,
            [height, width],
            [mi.mtf.Dimension("mask_height", height.size), mi.mtf.Dimension("mask_width", width.size)],
        )


def roi_levels(boxes, min_level, max_level, canonical_size):
    """Returns the level of each RoI (Lin et al. 2017, equation 1).

    `level = floor(4 + log2(sqrt(area) / canonical_size))`, limited to the levels from `min_level` to `max_level`.

    Args:
      boxes: Tensor[batch, rois, coords]
      min_level, max_level: the first and the last level.
      canonical_size: side in pixels of a square that belongs to level 4.

    Returns:
      int32 Tensor[batch, rois], 0 for `min_level`.
    """
    *rois, _ = boxes.shape.dims

    def levels(boxes):
        area = tf.reduce_prod(tf.maximum(boxes[..., 2:] - boxes[..., :2], 0), -1)
        # An area is compared with the squares of powers of two, because a logarithm may be rounded to the next integer.
        ends = [
            (canonical_size * math.ldexp(1.0, n - _CANONICAL_LEVEL)) ** 2 for n in range(min_level + 1, max_level + 1)
        ]
        reached = [tf.cast(area >= tf.constant(end, area.dtype), tf.int32) for end in ends]
        return tf.add_n(reached) if reached else tf.zeros(tf.shape(area), tf.int32)

    return mi.mtf.slicewise(
        levels, [mi.mtf.stop_gradient(boxes)], mi.mtf.Shape(rois), tf.int32, rois, name="roi_levels"
    )
