"""The network Mask R-CNN: a feature pyramid, region proposals, and heads for the boxes and masks of regions."""

import contextlib
import dataclasses

import gin

import mtf_imaging as mi
from mtf_imaging.models.detection.anchors import Anchors
from mtf_imaging.models.detection.head_layers import HeadLayers
from mtf_imaging.models.detection.pyramid_network import PyramidNetwork
from mtf_imaging.models.detection.roi_heads import BoxHead, MaskHead, RoIFeatures
from mtf_imaging.models.detection.rpn import RPNHead
from mtf_imaging.models.detection.sampling import ROIS
from mtf_imaging.parameters import parameter

_CLASSES = 90  # the classes of COCO, whose categories are numbered from 1 to 90


@gin.configurable(module="detection")
@dataclasses.dataclass(frozen=True)
class MaskRCNN(PyramidNetwork):
    """A network that finds objects and their masks (He et al. 2017, arXiv:1703.06870), with a feature pyramid.

    - A backbone and a feature pyramid compute maps at several levels. Level l has a stride of 2^l pixels.
    - A region proposal network computes a score and a box for each anchor of each level. The boxes with the highest
      scores are the regions of interest (RoIs).
    - The box head computes the class of each RoI and, for each class, a refined box, from `box_size` x `box_size`
      features within the RoI.
    - The mask head computes a mask for each class, from `mask_size` x `mask_size` features within a box.

    Weights are created when a method is called on tensors of a program. The weights of the backbone have the same names
    as without Mask R-CNN.

    All maps stay split along height and width, and so do the scores and boxes of the anchors. Features of RoIs are sums
    over the processors along these dimensions. The heads are split over RoIs if the layout has a rule for `rois`;
    without such a rule, all processors of an image do the same work there.

    Attributes:
      backbone: an object with a method `features(image, is_training)`, which returns Tensors[batch, height, width,
        channels], and with `strides`, the stride of each of them.
      classes: number of classes without the background. None selects the number that the task needs, or 90 without a
        task.
      filters: number of channels of the feature pyramid.
      min_level, max_level: the first and the last level of the feature pyramid.
      anchors: the `Anchors` of each pixel. None selects 3 anchors with the size 8.
      rpn_filters: number of filters of the region proposal network.
      roi_max_level: the last level from which RoIs take their features.
      aligned: whether RoIAlign places the center of pixel i of a level at `(i + 1/2) 2^l` pixels of the image, as in
        Detectron2. If False, it is at `i 2^l`, as in the TensorFlow Model Garden. Imported weights need the convention
        with which they were trained.
      canonical_size: side in pixels of a square RoI that takes its features from level 4. Squares of half the size take
        them from level 3, and so on. Small images need a smaller size to use several levels.
      box_size: number of features along each axis in the box head.
      box_convs: number of 3 x 3 convolutions of the box head, before its dense layers.
      box_filters: number of filters of these convolutions.
      box_dense: number of dense layers of the box head.
      box_units: number of channels of the box head's dense layers.
      mask_size: number of features along each axis in the mask head. Its masks have twice the size.
      mask_filters: number of filters of the mask head.
      mask_convs: number of 3 x 3 convolutions of the mask head.
      norm: whether batch norms follow the convolutions of the feature pyramid and the hidden layers of the heads. They
          speed up the training of networks without pretrained weights. The published networks have no such norms.
      train_norms: whether the norms of the backbone are trained. If False, they use their moving statistics, and their
        scales and offsets do not change, which suits pretrained backbones and small batches.
      norm_momentum: fraction of the moving statistics that each update of a batch norm keeps.
      norm_epsilon: number that batch norms add to the variance.
      gather_below: minimum size in pixels of a slice of a level. Dimensions with smaller slices are gathered, from the
        3 x 3 convolution of the level on. With 0, nothing is gathered.
    """

    min_level: int = 2
    max_level: int = 6
    rpn_filters: int = 256
    roi_max_level: int = 5
    aligned: bool = True
    canonical_size: float = 224.0
    box_size: int = 7
    box_convs: int = parameter(0, least=0)
    box_filters: int = 256
    box_dense: int = 2
    box_units: int = 1024
    mask_size: int = 14
    mask_filters: int = 256
    mask_convs: int = 4
    norm: bool = False
    train_norms: bool = True

    def __post_init__(self):
        super().__post_init__()
        if not self.min_level <= self.roi_max_level <= self.max_level:
            raise mi.ConfigError(
                f"MaskRCNN.roi_max_level = {self.roi_max_level}: it must be a level of the feature pyramid, from "
                f"{self.min_level} to {self.max_level}. Fix: choose one of these levels."
            )

    def features(self, image, is_training):
        """Computes the feature pyramid.

        Args:
          image: Tensor[batch, height, width, channels]
          is_training: whether norms use the statistics of the batch and update their moving statistics.

        Returns:
          A list with a Tensor[batch, height, width, channels=filters] for each level.
        """
        with contextlib.ExitStack() as stack:
            if not self.train_norms:
                stack.enter_context(mi.ops.freezing.freezing(image.mesh.graph, _is_of_norm))
            features = self.backbone.features(image, is_training)
        return self._pyramid_of(features, is_training)

    def region_scores(self, features, is_training):
        """Computes the score logits and the boxes of all anchors; see `RPNHead`."""
        head = RPNHead(self._layers(is_training), self.rpn_filters, self.level_anchors.per_cell)
        return head(features, self.min_level)

    def classify(self, features, rois, is_training):
        """Computes the class logits of RoIs, and the boxes relative to the RoIs; see `BoxHead`.

        Args:
          features: the feature pyramid.
          rois: Tensor[batch, rois_whole, coords]
          is_training: see `features`.

        Returns:
          Tensor[batch, rois, classes] and Tensor[batch, rois, classes, coords]. Class 0 is the background.
        """
        crops = self._roi_features(features).align(rois, self.box_size, "box_features")
        head = BoxHead(
            self._layers(is_training),
            self.box_units,
            self.classes or _CLASSES,
            self.box_convs,
            self.box_filters,
            self.box_dense,
        )
        return head(crops)

    def masks(self, features, boxes, classes, is_training):
        """Computes the mask logits of one class within each box; see `MaskHead`.

        Args:
          features: the feature pyramid.
          boxes: Tensor[batch, rois_whole, coords]
          classes: int32 Tensor[batch, rois_whole]; 0 is the background.
          is_training: see `features`.

        Returns:
          Tensor[batch, rois, mask_height, mask_width], of size 2 mask_size.
        """
        crops = self._roi_features(features).align(boxes, self.mask_size, "mask_features")
        classes = mi.ops.scatter_slices(classes, ROIS, "mask_classes_scatter")
        head = MaskHead(self._layers(is_training), self.mask_filters, self.mask_convs, self.classes or _CLASSES)
        return head(crops, classes)

    @property
    def pyramid(self):
        """The `FeaturePyramid`."""
        return dataclasses.replace(super().pyramid, norm=self.norm)

    @property
    def level_anchors(self):
        """The `Anchors` of each pixel."""
        return self.anchors or Anchors(scales=(1.0,), ratios=(0.5, 1.0, 2.0), size=8.0)

    @property
    def strides(self):
        """The stride of each level in pixels of the image."""
        return [2**level for level in self.pyramid.levels]

    def _layers(self, is_training):
        return HeadLayers(self.norm, is_training, self.norm_momentum, self.norm_epsilon)

    def _roi_features(self, features):
        levels = self.roi_max_level - self.min_level + 1
        return RoIFeatures(features[:levels], self.min_level, self.canonical_size, self.aligned)


def _is_of_norm(name):
    return name.rpartition("/")[2] in ("scale", "offset", "moving_mean", "moving_variance")
