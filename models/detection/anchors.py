"""Anchors: boxes of several sizes and shapes around the center of each pixel of a feature map."""

import dataclasses
import math

import gin
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.parameters import check_parameters

COORDS = mi.mtf.Dimension("coords", 4)  # y0, x0, y1, x1 in pixels of the image


@dataclasses.dataclass(frozen=True)
class LevelAnchors:
    """The anchors of a feature map, as the sides of boxes.

    The upper and lower sides do not depend on the column, and the left and right sides do not depend on the row.

    Attributes:
      y0, y1: Tensor[height, anchors], the upper and the lower sides, in pixels of the image.
      x0, x1: Tensor[width, anchors], the left and the right sides.
    """

    y0: mi.mtf.Tensor
    x0: mi.mtf.Tensor
    y1: mi.mtf.Tensor
    x1: mi.mtf.Tensor

    @property
    def dims(self):
        """The dimensions height, width and anchors."""
        height, anchors = self.y0.shape.dims
        return [height, self.x0.shape.dims[0], anchors]

    def to_boxes(self):
        """Returns the anchors as Tensor[height, width, anchors, coords]."""
        shape = mi.mtf.Shape(self.dims)
        sides = [mi.mtf.broadcast(side, shape) for side in (self.y0, self.x0, self.y1, self.x1)]
        return mi.mtf.stack(sides, COORDS.name, axis=len(self.dims))


@gin.configurable(module="detection")
@dataclasses.dataclass(frozen=True)
class Anchors:
    """The sizes and shapes of the anchors at each pixel of a feature map.

    Each pixel has an anchor for each pair of a scale and a ratio. The ratios of the first scale come first.

    Attributes:
      scales: factors of the size, as numbers above 0.
      ratios: width divided by height. All anchors of a scale have the same area.
      size: square root of the area of an anchor with scale 1, in pixels of the feature map.
    """

    scales: tuple[float, ...] = (1.0, 2 ** (1 / 3), 2 ** (2 / 3))
    ratios: tuple[float, ...] = (0.5, 1.0, 2.0)
    size: float = 4.0

    def __post_init__(self):
        check_parameters(self)

    @property
    def per_cell(self):
        """The number of anchors at each pixel."""
        return len(self.scales) * len(self.ratios)

    def boxes(self, feature, stride, image_sizes):
        """Returns the anchors of a feature map.

        The pixels of the map divide the image evenly, so the centers of the anchors are symmetric about the center of
        the image, even if the stride does not divide its size. The sizes of the anchors depend on the stride only.

        Args:
          feature: Tensor[batch, height, width, ...]. Only its dimensions and its dtype matter.
          stride: the stride of the level, in pixels of the image.
          image_sizes: height and width of the image in pixels.

        Returns:
          `LevelAnchors` with the dimensions height and width of the feature map, float32 or larger. They may reach
          beyond the image.
        """
        _, rows, columns, *_ = feature.shape.dims
        height, width = image_sizes
        shapes = [(self.size * stride * scale, math.sqrt(ratio)) for scale in self.scales for ratio in self.ratios]
        y0, y1 = self._sides(feature, rows, height, [size / root for size, root in shapes])
        x0, x1 = self._sides(feature, columns, width, [size * root for size, root in shapes])
        return LevelAnchors(y0, x0, y1, x1)

    def _sides(self, feature, dim, pixels, sizes):
        """Returns both ends of the anchors along an image dimension of `pixels` pixels: Tensors[dim, anchors]."""
        mesh, dtype = feature.mesh, mi.ops.master_dtype(feature.dtype)
        centers = (mi.mtf.range(mesh, dim, dtype) + 0.5) * (pixels / dim.size)
        anchors = mi.mtf.Dimension("anchors", self.per_cell)
        halves = tf.constant([size / 2 for size in sizes], dtype)
        halves = mi.mtf.import_tf_tensor(mesh, halves, mi.mtf.Shape([anchors]))
        shape = mi.mtf.Shape([dim, anchors])
        return mi.mtf.sub(centers, halves, output_shape=shape), mi.mtf.add(centers, halves, output_shape=shape)
