"""The feature pyramid: features of the same depth at several resolutions (Lin et al. 2017, arXiv:1612.03144)."""

import dataclasses

import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.backbones.gathering import gather_small_slices, gather_where, split_like


@dataclasses.dataclass(frozen=True)
class FeaturePyramid:
    """A feature pyramid on the features of a backbone. It creates its weights when it is called.

    Level l has a stride of 2^l, and `ceil(n / 2^l)` pixels for an image of n pixels.

    - A 1 x 1 convolution reduces each feature of the backbone to `filters` channels. From the coarsest level to the
      finest, each pixel of a level is repeated twice along both dimensions and added to the next finer level. A 3 x 3
      convolution of the sum is the feature of the level.
    - Each level beyond the backbone is a 3 x 3 convolution with stride 2 of the previous level. From the second such
      level on, a ReLU comes first.
    - With `norm`, a batch norm of each level follows.

    Every level can be split, even if it has fewer pixels than slices.

    Attributes:
      filters: number of channels of each level.
      min_level: the finest level.
      max_level: the coarsest level.
      norm: whether each level has a batch norm.
      norm_momentum: fraction of the moving statistics that each update of a batch norm keeps.
      norm_epsilon: number that batch norms add to the variance.
      gather_below: minimum size in pixels of a slice of a level. Dimensions with smaller slices are gathered, from the
        3 x 3 convolution of the level on. With 0, nothing is gathered.
    """

    filters: int
    min_level: int
    max_level: int
    norm: bool = True
    norm_momentum: float = 0.997
    norm_epsilon: float = 1e-4
    gather_below: int = 0

    @property
    def levels(self):
        """The levels, from the finest to the coarsest."""
        return range(self.min_level, self.max_level + 1)

    def select(self, backbone):
        """Returns the positions of the backbone features that the pyramid needs.

        Args:
          backbone: an object with `strides`, the strides of its features in ascending order.

        Raises:
          ConfigError: the backbone lacks a feature for the finest level, skips a level, or has several features with
              the same stride.
        """
        strides = list(backbone.strides)
        wanted = [2**level for level in self.levels if 2**level <= strides[-1]]
        if not wanted or any(strides.count(stride) != 1 for stride in wanted):
            raise mi.ConfigError(
                f"the levels {self.min_level} to {self.max_level} of a feature pyramid need one feature with each of "
                f"the strides {wanted or [2**self.min_level]}, but the features of {type(backbone).__name__} have the "
                f"strides {strides}. Fix: use output_stride=None, a backbone with more stages, or another min_level."
            )
        return [strides.index(stride) for stride in wanted]

    def __call__(self, features, is_training):
        """Computes the features of all levels.

        Args:
          features: Tensors[batch, height, width, channels], the backbone features that `select` selects. Coarser
              features may be gathered.
          is_training: whether norms use the statistics of the batch and update their moving statistics.

        Returns:
          A list with a Tensor[batch, height, width, channels] for each of `levels`. A gathered dimension has the name
          of `mi.ops.gather_slices`.
        """
        with tf.compat.v1.variable_scope("fpn"):
            levels = [
                self._conv(gather_where(x, f"level{level}_gather", self._is_small), f"level{level}", 3)
                for level, x in zip(self.levels, self._sums(features))
            ]
            for level in self.levels[len(levels) :]:
                x = mi.ops.relu(levels[-1]) if len(levels) > len(features) else levels[-1]
                x = gather_small_slices(x, f"level{level}_gather", 2, self.gather_below)
                levels.append(self._conv(x, f"level{level}", 3, strides=2))
            return [self._normalized(x, level, is_training) for level, x in zip(self.levels, levels)]

    def _sums(self, features):
        """Returns the sums of the reduced features and the repeated sums of the next coarser level."""
        sums = []
        for level, x in reversed(list(zip(self.levels, features))):
            x = self._conv(x, f"lateral{level}", 1)
            if sums:
                sizes = [dim.size for dim in x.shape.dims[1:-1]]
                coarser = mi.ops.resize2d(sums[0], sizes, "repeat", name=f"repeat{level}")
                x += split_like(coarser, x, f"repeat{level}_scatter")
            sums.insert(0, x)
        return sums

    def _is_small(self, dim, slices):
        return -(-dim.size // slices) < self.gather_below

    def _conv(self, x, name, kernel_size, strides=1):
        conv = mi.layers.Conv(self.filters, kernel_size, strides, kernel_initializer="lecun_normal", name=name)
        return conv(x)

    def _normalized(self, x, level, is_training):
        if not self.norm:
            return x
        return mi.ops.batch_norm(x, is_training, self.norm_momentum, self.norm_epsilon, name=f"level{level}_norm")
