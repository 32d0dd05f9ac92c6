"""The network RetinaNet: a backbone, a feature pyramid, and heads that predict a class and a box for each anchor."""

import dataclasses
from typing import Any

import gin

import mtf_imaging as mi
from mtf_imaging.models.backbones.checks import check_count
from mtf_imaging.models.detection.anchors import Anchors
from mtf_imaging.models.detection.fpn import FeaturePyramid, check_backbone, check_levels
from mtf_imaging.models.detection.heads import RetinaHeads

_CLASSES = 90  # the classes of COCO, including unused numbers


@gin.configurable(module="detection")
@dataclasses.dataclass(frozen=True)
class RetinaNet:
    """A network that detects objects in one stage (Lin et al. 2017, arXiv:1708.02002).

    - The backbone computes features at decreasing resolutions.
    - A feature pyramid (`FeaturePyramid`) converts them to features of the same depth, at the levels `min_level` to
      `max_level`. Level l has a stride of 2^l pixels.
    - Two heads (`RetinaHeads`) predict class logits and a box for each anchor of each pixel, at every level.

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

    backbone: Any = None
    classes: int | None = None
    filters: int = 256
    head_convs: int = 4
    min_level: int = 3
    max_level: int = 7
    anchors: Anchors | None = None
    norm_momentum: float = 0.997
    norm_epsilon: float = 1e-4
    gather_below: int = 0

    def __post_init__(self):
        for name in ["filters", "head_convs"] + ["classes"] * (self.classes is not None):
            check_count(self, name)
        if not isinstance(self.anchors, Anchors | None):
            raise mi.ConfigError(
                f"RetinaNet.anchors = {self.anchors!r}: it must be detection.Anchors, or None for 9 anchors."
            )
        check_levels(self)
        check_backbone(self)

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
        features, pyramid = self.backbone.features(image, is_training), self.pyramid
        levels = pyramid([features[i] for i in pyramid.select(self.backbone)], is_training)
        heads = RetinaHeads(
            self.classes or _CLASSES,
            self._anchors.per_cell,
            self.filters,
            self.head_convs,
            self.norm_momentum,
            self.norm_epsilon,
        )
        return [heads(x, level, is_training) for level, x in zip(pyramid.levels, levels)]

    def with_classes(self, classes):
        """Returns this network with a number of classes, or the network itself if its number of classes is set."""
        return dataclasses.replace(self, classes=classes) if self.classes is None else self

    @property
    def pyramid(self):
        """The `FeaturePyramid`."""
        return FeaturePyramid(
            self.filters,
            self.min_level,
            self.max_level,
            norm_momentum=self.norm_momentum,
            norm_epsilon=self.norm_epsilon,
            gather_below=self.gather_below,
        )

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
