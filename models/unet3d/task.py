"""Liver and lesion segmentation: what goes in, the loss, and how it is judged while it trains."""

from collections.abc import Callable

import gin
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.unet3d.network import UNet3D
from mtf_imaging.models.unet3d.supervision import labels_of_level, level_weights

BACKGROUND, LIVER, LESION = 0, 1, 2
_CLASSES = 3
_DICE = ("lesion", "classes", "adaptive")
_DICE_OVER = ("case", "batch", "both")


@gin.configurable(module="unet3d")
class LiverTumorSegmentation:
    """Background, liver and lesion of a CT, by a network.

    The loss is `(1 - dice_weight) weighted cross entropy + dice_weight Dice loss`; the defaults are those of Hou et al.
    2019. Where the network gives logits of several resolutions, as it does with `UNet3D.deep_supervision`, it is the
    weighted mean of theirs (`supervision.level_weights`).

    Attributes:
      network: a function (image, is_training) -> logits; in training also a list of them, each of half the size of the
        one before. Default: a `UNet3D`.
      class_weights: weights of background, liver and lesion voxels in the cross entropy.
      dice_weight: share of the Dice loss, 0..1.
      dice: which Dice loss: "lesion", that of the lesion alone; "classes", the mean of that of the liver's label and
        that of the lesion's; or "adaptive", of all classes (`ops.adaptive_dice_loss`).
      dice_over: what the sums of "lesion" and "classes" are over: "case", "batch", or "both" for the mean of the two
        losses (`ops.dice_loss`).
      dice_background: whether "classes" has the background among them.
    """

    def __init__(
        self,
        network: Callable | None = None,
        class_weights=(1.0, 8.0, 16.0),
        dice_weight=0.2,
        dice="lesion",
        dice_over="both",
        dice_background=False,
    ):
        own = type(self).__name__
        for name, value, known in (("dice", dice, _DICE), ("dice_over", dice_over, _DICE_OVER)):
            if value not in known:
                raise mi.ConfigError(f"{own}.{name} = {value!r} is not known. Fix: choose one of {', '.join(known)}.")
        if not 0 <= dice_weight <= 1:
            raise mi.ConfigError(f"{own}.dice_weight = {dice_weight}: it must be from 0, cross entropy alone, to 1.")
        if dice_background and dice != "classes":
            raise mi.ConfigError(
                f"{own}.dice_background = {dice_background}: {own}.dice = {dice!r} has no such choice. "
                f"Fix: {own}.dice = 'classes', or leave it out."
            )
        if dice == "adaptive" and dice_over != "both":
            raise mi.ConfigError(
                f"{own}.dice_over = {dice_over!r}: {own}.dice = 'adaptive' is always that of the batch. "
                f"Fix: {own}.dice = 'lesion' or 'classes', or leave it out."
            )
        self.network = network or UNet3D()
        self.dice, self.dice_over, self.dice_background = dice, dice_over, dice_background
        self.class_weights = tuple(class_weights)
        self.dice_weight = dice_weight

    def inputs(self, batch_size, sizes, dtype=tf.float32, labels=True):
        """Inputs of a program, by name.

        Args:
          batch_size: volumes in a batch.
          sizes: voxels along x, y and z.
          dtype: of images and activations.
          labels: whether the labels are among them (training), or the image only.
        """
        volume = f"batch:{batch_size}," + ",".join(f"{name}:{size}" for name, size in zip("xyz", sizes, strict=True))
        inputs = {"image": (f"{volume},channels:1", dtype)}
        return {**inputs, "labels": (volume, tf.int32)} if labels else inputs

    def loss(self, image, labels):
        """The loss to minimize, and measures to show beside it.

        Args:
          image: Tensor[batch, x, y, z, channels=1], in 0..1.
          labels: Tensor[batch, x, y, z], int32: 0 background, 1 liver, 2 lesion.

        Returns:
          loss Tensor[], and a dict of Tensors[]: soft Dice over the batch of liver (with its lesions) and lesion; all
          float32 at least.
        """
        found = self.network(image, is_training=True)
        levels = [self._precise(logits) for logits in (found if isinstance(found, list | tuple) else [found])]
        losses = []
        for level, (logits, weight) in enumerate(zip(levels, level_weights(len(levels)))):
            there = labels_of_level(labels, logits, level)
            probability = mi.ops.softmax(logits, logits.shape.dims[-1])
            masks = self._masks(probability, there)
            losses.append(weight * self._loss(logits, there, probability, masks))
            if not level:
                liver = [of_liver + of_lesion for of_liver, of_lesion in zip(masks[LIVER], masks[LESION])]
                measures = {"liver": _soft_dice(*liver), "lesion": _soft_dice(*masks[LESION])}
        return mi.mtf.add_n(losses), measures

    def _loss(self, logits, labels, probability, masks):
        cross_entropy = mi.ops.weighted_cross_entropy(logits, labels, logits.shape.dims[-1], self.class_weights)
        if self.dice == "adaptive":
            dice = mi.ops.adaptive_dice_loss(probability, labels, probability.shape.dims[-1])
        else:
            of = [LESION] if self.dice == "lesion" else masks
            dice = [mi.ops.dice_loss(*masks[index], labels.shape.dims[0], over=self.dice_over) for index in of]
            dice = mi.mtf.add_n(dice) / len(dice)
        return (1 - self.dice_weight) * cross_entropy + self.dice_weight * dice

    def _masks(self, probability, labels):
        """{class: (its probability, 1 where it is)}, Tensors[batch, x, y, z], of all that Dice is taken of."""
        classes = probability.shape.dims[-1]
        return {
            index: (
                mi.mtf.gather(probability, index, classes),
                mi.mtf.cast(mi.mtf.equal(labels, index), probability.dtype),
            )
            for index in [BACKGROUND] * self.dice_background + [LIVER, LESION]
        }

    def predict(self, image):
        """Tensor[batch, x, y, z, channels=1] -> probabilities Tensor[batch, x, y, z, classes]."""
        logits = self._precise(self.network(image, is_training=False))
        return mi.ops.softmax(logits, logits.shape.dims[-1])

    def _precise(self, logits):
        """Checks the number of classes and casts the logits to at least float32, as sums over a volume need."""
        classes = logits.shape.dims[-1].size
        if classes != _CLASSES:
            raise mi.ConfigError(
                f"{type(self).__name__}.network: the network has {classes} classes, but this task needs {_CLASSES}: "
                f"background, liver and lesion. Fix: a network with {_CLASSES} classes (UNet3D.classes = {_CLASSES})."
            )
        return mi.mtf.cast(logits, mi.ops.master_dtype(logits.dtype))


def _soft_dice(probability, target, epsilon=1e-6):
    """`(2 sum(p t) + e) / (sum(p) + sum(t) + e)` over all voxels: 1 where both are empty."""
    intersection = mi.ops.over_batch(mi.mtf.reduce_sum(probability * target))
    total = mi.ops.over_batch(mi.mtf.reduce_sum(probability) + mi.mtf.reduce_sum(target))
    return (2 * intersection + epsilon) / (total + epsilon)
