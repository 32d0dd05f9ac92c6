"""Liver and lesion segmentation: the inputs, the loss, and the measures that training reports."""

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
    """Segmentation of a CT into background, liver and lesion.

    The loss is `(1 - dice_weight) weighted cross entropy + dice_weight Dice loss`. The defaults are the settings of Hou
    et al. 2019. If the network returns logits at several resolutions (`UNet3D.deep_supervision`), the loss is the
    weighted mean of the losses of all resolutions (`supervision.level_weights`).

    Attributes:
      network: a function (image, is_training) -> logits. In training, it may return a list of logits, each of half the
        sizes of the previous ones, rounded up. The default is a `UNet3D`.
      class_weights: weights of background, liver and lesion voxels in the cross entropy.
      dice_weight: weight of the Dice loss, from 0 to 1.
      dice: the Dice loss. "lesion" is the loss of the lesion, "classes" is the mean of the losses of liver and lesion,
        and "adaptive" is the loss of all classes (`ops.adaptive_dice_loss`).
      dice_over: the cases that the sums of the Dice losses "lesion" and "classes" cover: "case", "batch", or "both" for
        the mean of the two losses (`ops.dice_loss`).
      dice_background: whether "classes" includes the background.
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
        owner = type(self).__name__
        for name, value, choices in (("dice", dice, _DICE), ("dice_over", dice_over, _DICE_OVER)):
            if value not in choices:
                raise mi.ConfigError(
                    f"{owner}.{name} = {value!r} is not known. Fix: choose one of {', '.join(choices)}."
                )
        if not 0 <= dice_weight <= 1:
            raise mi.ConfigError(f"{owner}.dice_weight = {dice_weight}: it must be from 0 (only cross entropy) to 1.")
        if dice_background and dice != "classes":
            raise mi.ConfigError(
                f"{owner}.dice_background = {dice_background}: it applies only to {owner}.dice = 'classes', but "
                f"{owner}.dice is {dice!r}. Fix: use {owner}.dice = 'classes', or leave it out."
            )
        if dice == "adaptive" and dice_over != "both":
            raise mi.ConfigError(
                f"{owner}.dice_over = {dice_over!r}: {owner}.dice = 'adaptive' always covers the batch. "
                f"Fix: use {owner}.dice = 'lesion' or 'classes', or leave it out."
            )
        self.network = network or UNet3D()
        self.dice, self.dice_over, self.dice_background = dice, dice_over, dice_background
        self.class_weights = tuple(class_weights)
        self.dice_weight = dice_weight

    def inputs(self, batch_size, sizes, dtype=tf.float32, labels=True):
        """Returns the inputs of a program, by name.

        Args:
          batch_size: number of volumes in a batch.
          sizes: sizes of a volume along x, y and z in voxels.
          dtype: dtype of images and activations.
          labels: whether to include the labels, which training needs and prediction does not.

        Returns:
          A dict {name: (shape, dtype)}.
        """
        volume = f"batch:{batch_size}," + ",".join(f"{name}:{size}" for name, size in zip("xyz", sizes, strict=True))
        inputs = {"image": (f"{volume},channels:1", dtype)}
        return {**inputs, "labels": (volume, tf.int32)} if labels else inputs

    def loss(self, image, labels):
        """Computes the loss to minimize, and the soft Dice of liver and lesion.

        Args:
          image: Tensor[batch, x, y, z, channels=1], with values from 0 to 1.
          labels: int32 Tensor[batch, x, y, z], 0 for background, 1 for liver and 2 for lesion.

        Returns:
          The loss, Tensor[], and a dict with "liver" (including its lesions) and "lesion", Tensors[] with the soft Dice
          over the batch. All are float32 or larger.
        """
        logits = self.network(image, is_training=True)
        levels = [self._to_float32(x) for x in (logits if isinstance(logits, list | tuple) else [logits])]
        losses = []
        for level, (logits, weight) in enumerate(zip(levels, level_weights(len(levels)))):
            targets = labels_of_level(labels, logits, level)
            probability = mi.ops.softmax(logits, logits.shape.dims[-1])
            masks = self._masks(probability, targets)
            losses.append(weight * self._loss(logits, targets, probability, masks))
            if not level:
                liver = [liver + lesion for liver, lesion in zip(masks[LIVER], masks[LESION])]
                measures = {"liver": _soft_dice(*liver), "lesion": _soft_dice(*masks[LESION])}
        return mi.mtf.add_n(losses), measures

    def _loss(self, logits, labels, probability, masks):
        cross_entropy = mi.ops.weighted_cross_entropy(logits, labels, logits.shape.dims[-1], self.class_weights)
        if self.dice == "adaptive":
            dice = mi.ops.adaptive_dice_loss(probability, labels, probability.shape.dims[-1])
        else:
            classes = [LESION] if self.dice == "lesion" else masks
            dice = [mi.ops.dice_loss(*masks[index], labels.shape.dims[0], over=self.dice_over) for index in classes]
            dice = mi.mtf.add_n(dice) / len(dice)
        return (1 - self.dice_weight) * cross_entropy + self.dice_weight * dice

    def _masks(self, probability, labels):
        """Returns {class: (probability, target)} for all classes of the Dice loss and the measures.

        All are Tensors[batch, x, y, z]. A target is 1 for the voxels of the class and 0 for all others.
        """
        classes = probability.shape.dims[-1]
        return {
            index: (
                mi.mtf.gather(probability, index, classes),
                mi.mtf.cast(mi.mtf.equal(labels, index), probability.dtype),
            )
            for index in [BACKGROUND] * self.dice_background + [LIVER, LESION]
        }

    def predict(self, image):
        """Predicts the classes: Tensor[batch, x, y, z, channels=1] -> probabilities Tensor[batch, x, y, z, classes]."""
        logits = self._to_float32(self.network(image, is_training=False))
        return mi.ops.softmax(logits, logits.shape.dims[-1])

    def _to_float32(self, logits):
        """Checks the number of classes, and casts the logits to float32 or larger, which sums over a volume need."""
        classes = logits.shape.dims[-1].size
        if classes != _CLASSES:
            raise mi.ConfigError(
                f"{type(self).__name__}.network: the network has {classes} classes, but this task needs {_CLASSES}: "
                f"background, liver and lesion. Fix: use a network with {_CLASSES} classes (UNet3D.classes = "
                f"{_CLASSES})."
            )
        return mi.mtf.cast(logits, mi.ops.master_dtype(logits.dtype))


def _soft_dice(probability, target, epsilon=1e-6):
    """Returns `(2 sum(p t) + epsilon) / (sum(p) + sum(t) + epsilon)` over all voxels, which is 1 if both are empty."""
    intersection = mi.ops.over_batch(mi.mtf.reduce_sum(probability * target))
    total = mi.ops.over_batch(mi.mtf.reduce_sum(probability) + mi.mtf.reduce_sum(target))
    return (2 * intersection + epsilon) / (total + epsilon)
