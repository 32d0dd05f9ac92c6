"""The interface of backbones: networks that compute features of an image at decreasing resolutions."""

import abc
import dataclasses

import mtf_imaging as mi
from mtf_imaging.models.backbones.conv_norm import PADDINGS, ConvNorm
from mtf_imaging.parameters import check_parameters, parameter


@dataclasses.dataclass(frozen=True, kw_only=True)
class Backbone(abc.ABC):
    """A network that computes features of an image for a classifier, a segmentation network or a detector.

    Images may have any size. Every operation can be split along height and width.

    Attributes:
      base_filters: number of filters of the first convolution. All other numbers of filters are multiples of it.
      padding: padding of strided convolutions. "fixed" does not depend on the size of the image, as in published
        networks; "same" is TensorFlow's "SAME".
      output_stride: largest stride of a feature, 8, 16 or 32. Stages that would exceed it keep the resolution, and
        dilate their convolutions instead. With None, no stage does so.
      norm_momentum: fraction of the moving statistics that each update of a batch norm keeps.
      norm_epsilon: number that batch norms add to the variance.
      gather_below: minimum size of a slice in pixels. If a strided operation would make smaller slices along a
        dimension, the dimension is gathered for this operation and all that follow. With 0, nothing is gathered.
      recompute: whether the backward pass recomputes the activations of the stem and of each block, which saves memory
        at the cost of one more forward pass (`mi.ops.recompute`).
    """

    base_filters: int = 64
    padding: str = parameter("fixed", choices=PADDINGS)
    output_stride: int | None = parameter(None, choices=(None, 8, 16, 32))
    norm_momentum: float = parameter(0.9997, least=0, below=1)
    norm_epsilon: float = 1e-5
    gather_below: int = parameter(0, least=0)
    recompute: bool = False

    def __post_init__(self):
        check_parameters(self)

    @abc.abstractmethod
    def features(self, image, is_training):
        """Computes features at increasing depth.

        Args:
          image: Tensor[batch, height, width, channels]
          is_training: whether norms use the statistics of the batch and update their moving statistics.

        Returns:
          A tuple of Tensor[batch, height / stride, width / stride, channels] with sizes rounded up and the strides of
          `strides`. A gathered dimension has the name of `mi.ops.gather_slices` from its first such feature on.
        """

    @property
    @abc.abstractmethod
    def strides(self):
        """The stride of each feature: the first is 4, and the last is at most `output_stride`."""

    def _conv_norm(self, is_training):
        return ConvNorm(is_training, self.norm_momentum, self.norm_epsilon, self.padding, self.gather_below)

    def _run(self, is_training, fn, *inputs):
        """Calls a part of the network. With `recompute`, the backward pass computes its activations again."""
        return mi.ops.recompute(fn, *inputs) if self.recompute and is_training else fn(*inputs)

    def _limited(self, stride):
        """Returns the stride of a stage, and the dilation that replaces the rest of a larger stride."""
        limited = min(stride, self.output_stride or stride)
        return limited, stride // limited
