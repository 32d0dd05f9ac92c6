"""The network DeepLab v3+: a backbone, atrous spatial pyramid pooling, and a decoder."""

import dataclasses
import math
from typing import Any

import gin
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.backbones.conv_norm import ConvNorm
from mtf_imaging.models.backbones.gathering import split_like
from mtf_imaging.models.deeplab import layers
from mtf_imaging.models.deeplab.gathering import gather_small_slices
from mtf_imaging.models.deeplab.layers import Layers
from mtf_imaging.models.tasks import OpenBiases
from mtf_imaging.parameters import parameter

_CLASSES = 21  # the classes of PASCAL VOC
_RATES, _RATES_STRIDE = (6, 12, 18), 16  # the paper's rates, and the output stride to which they belong


@gin.configurable(module="deeplab")
@dataclasses.dataclass(frozen=True)
class DeepLab(OpenBiases):
    """A network that classifies each pixel. It creates its weights when it is called on a tensor of a program.

    - The backbone computes features at decreasing resolutions, the last ones at its output stride.
    - Atrous spatial pyramid pooling (ASPP) computes five maps of the last features: a 1 x 1 convolution, three 3 x 3
      convolutions with different dilations, and the mean over the whole map. It concatenates them, and reduces them
      with a 1 x 1 convolution and a dropout.
    - The decoder resizes the result to the features at stride 4, concatenates both, and applies 3 x 3 convolutions. A
      1 x 1 convolution with a bias computes the logits, which are resized to the image.

    Every convolution but the last one is followed by a batch norm over the whole batch and a ReLU. All resizes are
    linear. Images may have any size.

    The weights of the backbone have the same names as without DeepLab.

    Every layer can stay split: a halo may reach past the next slice. However, the rates of ASPP are large compared with
    its map. A map of 33 x 33 in slices of 17 and 16 pixels has a rate of 18, and each of the three convolutions has its
    own halo. `gather_below` gathers the map instead. All processors along a gathered dimension then compute the same
    ASPP, and its result is split again, so the decoder stays split.

    Attributes:
      backbone: an object with a method `features(image, is_training)`, which returns a tuple of
        Tensors[batch, height, width, channels], the first one at stride 4 and the last one at `backbone.output_stride`,
        an int.
      classes: number of classes. None selects the number that the task needs, or 21 without a task.
      filters: number of filters of each ASPP convolution.
      rates: dilations of the 3 x 3 convolutions of ASPP. None selects 6, 12 and 18 for an output stride of 16, and
        twice as much for an output stride of 8.
      low_level_filters: number of channels to which the decoder reduces the features at stride 4.
      decoder_filters: number of filters of the decoder's 3 x 3 convolutions.
      decoder_convs: number of 3 x 3 convolutions of the decoder.
      dropout_rate: fraction of ASPP's results that training drops.
      separable: whether the 3 x 3 convolutions of ASPP and of the decoder are depthwise separable. They are in the
          published networks with an Xception backbone, but not with a ResNet backbone.
      align_corners: whether resizes keep the centers of the pixels at the border, as in the published networks. If
        False, they keep the borders of the image, as in `official/vision` of tensorflow/models.
      norm_momentum: fraction of the moving statistics that each update of a batch norm keeps.
      norm_epsilon: number that batch norms add to the variance.
      gather_below: minimum size in pixels of a slice of ASPP's map. Dimensions with smaller slices are gathered for
        ASPP. 0 gathers nothing. None chooses for each dimension: it gathers the dimension if this moves fewer values
        between processors than the halos of all dilated convolutions (`gathering.halos_exceed_map`). This rule depends
        on shapes only, not on devices. It does not count the arithmetic that the processors along a gathered dimension
        repeat. That arithmetic grows with the batch, so 0 may be faster for batches of several images. `explain`
        estimates both.
      multiple: prediction pads images that are larger than the training crops to a multiple of this size in pixels, so
          that images of similar sizes share a program.
      class_biases: initial bias of each class. None selects 0 or, in training, the biases that follow from the class
          frequencies (`class_biases.softmax_biases`).
    """

    backbone: Any = parameter(None, offers=("features", "output_stride"), example="resnet.ResNetBackbone")
    classes: int | None = None
    filters: int = 256
    rates: tuple[int, ...] | None = parameter(None, can_be_empty=True)
    low_level_filters: int = 48
    decoder_filters: int = 256
    decoder_convs: int = 2
    dropout_rate: float = parameter(0.1, least=0, below=1)
    separable: bool = False
    align_corners: bool = True
    norm_momentum: float = parameter(0.9997, least=0, below=1)
    norm_epsilon: float = 1e-5
    gather_below: int | None = parameter(None, least=0)
    multiple: int = 64
    class_biases: tuple[float, ...] | None = parameter(None, least=-math.inf)

    def __post_init__(self):
        super().__post_init__()
        stride = self.backbone.output_stride
        if not isinstance(stride, int):
            raise mi.ConfigError(
                f"DeepLab.backbone: its output_stride is {stride!r}, but DeepLab needs a fixed one. Fix: set "
                f"{type(self.backbone).__name__}.output_stride to 16, or to 8 for finer features."
            )

    def __call__(self, image, is_training):
        """Computes the logits of all classes.

        Args:
          image: Tensor[batch, height, width, channels]
          is_training: whether norms use the statistics of the batch and update their moving statistics, and whether
              dropout is active.

        Returns:
          logits Tensor[batch, height, width, classes], float32 or larger.
        """
        low_level, *_, deep = self.backbone.features(image, is_training)
        block = Layers(ConvNorm(is_training, self.norm_momentum, self.norm_epsilon), self.separable)
        with tf.compat.v1.variable_scope("deeplab"):
            low_level = split_like(low_level, image, "low_level_scatter")
            deep = split_like(self._aspp(block, deep), image, "aspp_scatter")
            x = self._decoder(block, low_level, deep)
            logits = layers.classify(x, "classes", self.classes or _CLASSES, self.class_biases)
            return layers.resize(logits, image, self.align_corners, "logits_resize")

    @property
    def atrous_rates(self):
        """The dilations of the 3 x 3 convolutions of ASPP."""
        if self.rates is not None:
            return self.rates
        return tuple(max(1, rate * _RATES_STRIDE // self.backbone.output_stride) for rate in _RATES)

    def _aspp(self, block, x):
        rates = self.atrous_rates
        x = gather_small_slices(x, "aspp_gather", self.gather_below, rates, self.filters, self.separable)
        with tf.compat.v1.variable_scope("aspp"):
            maps = [
                block.mean_over_map(x, "aspp_mean", self.filters),
                block.pointwise(x, "aspp0", self.filters),
                *(block.spatial(x, f"aspp{i}", self.filters, rate) for i, rate in enumerate(rates, 1)),
            ]
            x = block.pointwise(mi.layers.concat(maps), "aspp_join", self.filters)
        if block.conv_norm.is_training and self.dropout_rate:
            x = mi.ops.dropout(x, self.dropout_rate, name="deeplab/aspp/dropout")
        return x

    def _decoder(self, block, low_level, deep):
        with tf.compat.v1.variable_scope("decoder"):
            reduced = block.pointwise(low_level, "low_level", self.low_level_filters)
            deep = layers.resize(deep, low_level, self.align_corners, "aspp_resize")
            x = mi.layers.concat([deep, reduced])
            for i in range(self.decoder_convs):
                x = block.spatial(x, f"decoder{i}", self.decoder_filters)
        return x
