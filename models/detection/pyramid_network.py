"""The base class of detectors: a backbone with a feature pyramid, and a number of classes."""

import dataclasses
from typing import Any

from mtf_imaging.models.detection.anchors import Anchors
from mtf_imaging.models.detection.fpn import FeaturePyramid
from mtf_imaging.models.tasks import OpenClasses
from mtf_imaging.parameters import parameter


@dataclasses.dataclass(frozen=True)
class PyramidNetwork(OpenClasses):
    """Base class of detectors. The documentation of a subclass describes the attributes."""

    backbone: Any = parameter(None, offers=("features", "strides"), example="resnet.ResNetBackbone")
    classes: int | None = None
    filters: int = 256
    min_level: int = 3
    max_level: int = 7
    anchors: Anchors | None = None
    norm_momentum: float = parameter(0.997, least=0, below=1)
    norm_epsilon: float = 1e-4
    gather_below: int = parameter(0, least=0)

    def __post_init__(self):
        super().__post_init__()
        self.pyramid.select(self.backbone)

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

    def _pyramid_of(self, features, is_training):
        """Returns the features of all levels, given the features of the backbone."""
        return self.pyramid([features[i] for i in self.pyramid.select(self.backbone)], is_training)
