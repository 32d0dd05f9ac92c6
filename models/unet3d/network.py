"""The network: four resolutions down, four up, with a skip connection at each."""

import dataclasses
import functools

import gin
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.unet3d import layers

_NORMS = ("batch", "instance", "group", "none")


@gin.configurable(module="unet3d")
@dataclasses.dataclass(frozen=True)
class UNet3D:
    """A 3D U-Net; called on a tensor within a program, it makes its weights there.

    A block is `convs` times: convolution, norm, leaky ReLU, dropout. There is no dropout after the first convolution
    and after the last one before the classes. Level l has `base_filters 2^l` filters, at 1 / 2^l of the resolution.

    Attributes:
      classes: number of classes.
      base_filters: filters of the first block.
      depth: number of resolutions.
      convs: convolutions in a block.
      kernel_size: voxels along each axis.
      norm: "batch", "instance", "group" or "none". Instance and group norm see one case at a time: they are the same in
        training and prediction, and exact in micro-batches.
      norm_groups: groups of channels of the group norm.
      norm_momentum: of the batch norm's moving statistics.
      norm_epsilon: of all norms.
      negative_slope: slope of the leaky ReLU below zero; 0 is the ReLU.
      dropout_rate: the fraction of the activations that dropout sets to zero in training; 0 is no dropout.
      gather_below: voxels. From the first level down in which slices have fewer along an axis, or could not all have as
        many, each processor holds all of that axis, and does the work of all. 0 gathers nothing: a layout that splits
        a level too far is refused.
      double_before_pool: whether filters double at a block's last convolution on the way down, as in Cicek et al. 2016
        (arXiv:1606.06650), and transposed convolutions keep their number; otherwise both change it with the level.
      recompute: whether the backward pass computes the activations of each block but the last again, for less memory
        and a forward pass more (`mi.ops.recompute`).
      deep_supervision: how many coarser levels of the decoder give logits in training, too, each by a convolution of
        1^3: True for all of them, `depth - 2`; False for none. They are no part of the network that predicts.
    """

    classes: int = 3
    base_filters: int = 32
    depth: int = 4
    convs: int = 2
    kernel_size: int = 3
    norm: str = "batch"
    norm_groups: int = 8
    norm_momentum: float = 0.9
    norm_epsilon: float = 1e-6
    negative_slope: float = 0.1
    dropout_rate: float = 0.5
    gather_below: int = 0
    double_before_pool: bool = False
    recompute: bool = False
    deep_supervision: bool | int = False

    def __post_init__(self):
        for name in ("classes", "base_filters", "depth", "convs", "kernel_size"):
            if getattr(self, name) < 1:
                raise mi.ConfigError(f"UNet3D.{name} = {getattr(self, name)}: it must be at least 1.")
        if self.norm not in _NORMS:
            raise mi.ConfigError(f"UNet3D.norm = {self.norm!r} is not known. Fix: choose one of {', '.join(_NORMS)}.")
        groups = self.norm_groups
        if self.norm == "group" and not (isinstance(groups, int) and groups > 0 and self.base_filters % groups == 0):
            raise mi.ConfigError(
                f"UNet3D.norm_groups = {groups!r}: it must be a number that divides UNet3D.base_filters = "
                f"{self.base_filters}, the channels of the first block."
            )
        if not (isinstance(self.gather_below, int) and self.gather_below >= 0):
            raise mi.ConfigError(
                f"UNet3D.gather_below = {self.gather_below!r}: it must be a number of voxels, or 0 to gather nothing."
            )
        if not 0 <= self.dropout_rate < 1:
            raise mi.ConfigError(
                f"UNet3D.dropout_rate = {self.dropout_rate}: it must be at least 0, which is no dropout, and below 1."
            )

        self._check_supervision()

    def __call__(self, image, is_training):
        """Tensor[batch, x, y, z, channels] -> logits Tensor[batch, x, y, z, classes].

        In training with `deep_supervision`, it is a list of such logits, each of half the size of the one before.

        Args:
          image: the images.
          is_training: whether norms use the batch's statistics and move their own, and dropout drops.

        Raises:
          ShapeError: a size of the image that cannot be halved `depth - 1` times.
        """
        self._check_sizes(image)
        with tf.compat.v1.variable_scope("unet3d"):
            x, skips, coarser = image, [], []
            again = mi.ops.recompute if self.recompute and is_training else _call
            for level in range(self.depth):
                if level:
                    skips.append(x)
                x = again(functools.partial(self._down, level, is_training), x)
            for level in reversed(range(self.depth - 1)):
                again = again if level else _call  # what the last one makes is used at once
                x = again(functools.partial(self._up, level, is_training), x, skips.pop())
                if is_training and 0 < level <= self._supervised:
                    coarser.insert(0, self._logits(x, f"classes{level}"))
            logits = self._logits(x, "classes")
            return [logits, *coarser] if coarser else logits

    @property
    def _supervised(self):
        """The coarsest level that gives logits."""
        return self.depth - 2 if self.deep_supervision is True else int(self.deep_supervision)

    def _logits(self, x, name):
        return layers.conv(x, name, self.classes, kernel_size=1, output_name="classes")

    def _down(self, level, is_training, x):
        if level:
            x = layers.pool(x, f"pool{level}", self.gather_below)
        filters = [self.base_filters * 2**level] * (self.convs - 1) + [self._filters(level)]
        return self._block(x, f"down{level}", filters, is_training, first=level == 0)

    def _up(self, level, is_training, x, skip):
        x = layers.grow(x, skip, f"grow{level}", self._filters(level + self.double_before_pool))
        x = layers.concat_channels([x, skip])
        return self._block(x, f"up{level}", [self._filters(level)] * self.convs, is_training, last=level == 0)

    def _filters(self, level):
        """Filters that a block ends with."""
        return self.base_filters * 2 ** (level + self.double_before_pool)

    def _block(self, x, name, filters, is_training, first=False, last=False):
        with tf.compat.v1.variable_scope(name):
            for i, number in enumerate(filters):
                x = layers.conv(x, f"conv{i}", number, self.kernel_size, use_bias=self.norm == "none")
                x = self._normalised(x, f"norm{i}", is_training)
                x = mi.ops.leaky_relu(x, self.negative_slope)
                spared = (first and i == 0) or (last and i == self.convs - 1)
                if is_training and self.dropout_rate and not spared:
                    x = mi.ops.dropout(x, self.dropout_rate, name=f"{name}/dropout{i}")
        return x

    def _normalised(self, x, name, is_training):
        if self.norm == "batch":
            return mi.ops.batch_norm(x, is_training, self.norm_momentum, self.norm_epsilon, name=name)
        if self.norm == "instance":
            return mi.ops.instance_norm(x, self.norm_epsilon, name=name)
        if self.norm == "group":
            return mi.ops.group_norm(x, self.norm_groups, self.norm_epsilon, name=name)
        return x

    def _check_supervision(self):
        asked, there = self.deep_supervision, self.depth - 2
        if not isinstance(asked, int) or asked < 0 or (asked and not 1 <= self._supervised <= there):
            fix = "another number, or True for all" if there > 0 else "UNet3D.depth = 3 or more"
            raise mi.ConfigError(
                f"UNet3D.deep_supervision = {asked!r}: the decoder of UNet3D.depth = {self.depth} has {max(there, 0)} "
                f"coarser levels than the image's. Fix: {fix}, or False."
            )

    def _check_sizes(self, image):
        factor = 2 ** (self.depth - 1)
        faults = []
        for dim in image.shape.dims[-4:-1]:
            if dim.size % factor:
                below, above = dim.size // factor * factor, -(-dim.size // factor) * factor
                nearest = f"{below} or {above}" if below else f"{above}"
                faults.append(f"'{dim.name}' (size {dim.size}, nearest: {nearest})")
        if faults:
            raise mi.ShapeError(
                f"UNet3D of depth {self.depth} halves the image {self.depth - 1} times, so {factor} must divide its "
                f"sizes; it does not divide {', '.join(faults)}. Fix: another resolution, or a smaller UNet3D.depth."
            )


def _call(fn, *inputs):
    return fn(*inputs)
