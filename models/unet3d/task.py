"""Liver and lesion segmentation: what goes in, the loss, and how it is judged while it trains."""

import gin
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.unet3d.network import UNet3D

LIVER, LESION = 1, 2
_DICE = ("lesion", "adaptive")


@gin.configurable(module="unet3d")
class Task:
    """Background, liver and lesion of a CT, by a network.

    The loss is `(1 - dice_weight) weighted cross entropy + dice_weight Dice loss`; the defaults are those of Hou et al.
    2019.

    Attributes:
      network: a function (image, is_training) -> logits; default: a `UNet3D`.
      class_weights: weights of background, liver and lesion voxels in the cross entropy.
      dice_weight: share of the Dice loss.
      dice: which Dice loss: "lesion", that of the lesion alone, or "adaptive", that of all classes
        (`ops.adaptive_dice_loss`).
    """

    def __init__(self, network=None, class_weights=(1.0, 8.0, 16.0), dice_weight=0.2, dice="lesion"):
        if dice not in _DICE:
            raise mi.ConfigError(f"Task.dice = {dice!r} is not known. Fix: choose one of {', '.join(_DICE)}.")
        self.network = network or UNet3D()
        self.dice = dice
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
        """The loss to minimise, and measures to show beside it.

        Args:
          image: Tensor[batch, x, y, z, channels=1], in 0..1.
          labels: Tensor[batch, x, y, z], int32: 0 background, 1 liver, 2 lesion.

        Returns:
          loss Tensor[], and a dict of Tensors[]: soft Dice over the batch of liver (with its lesions) and lesion; all
          float32 at least.
        """
        logits = self._logits(image, is_training=True)
        probability = mi.ops.softmax(logits, logits.shape.dims[-1])
        batch, classes = labels.shape.dims[0], logits.shape.dims[-1]

        lesion, is_lesion = self._of(probability, LESION), self._where(labels, LESION, logits.dtype)
        liver, is_liver = lesion + self._of(probability, LIVER), is_lesion + self._where(labels, LIVER, logits.dtype)
        cross_entropy = mi.ops.weighted_cross_entropy(logits, labels, classes, self.class_weights)
        if self.dice == "adaptive":
            dice = mi.ops.adaptive_dice_loss(probability, labels, classes)
        else:
            dice = mi.ops.dice_loss(lesion, is_lesion, batch)
        loss = (1 - self.dice_weight) * cross_entropy + self.dice_weight * dice
        return loss, {"liver": _soft_dice(liver, is_liver), "lesion": _soft_dice(lesion, is_lesion)}

    def predict(self, image):
        """Tensor[batch, x, y, z, channels=1] -> probabilities Tensor[batch, x, y, z, classes]."""
        logits = self._logits(image, is_training=False)
        return mi.ops.softmax(logits, logits.shape.dims[-1])

    def _logits(self, image, is_training):
        """Logits in float32 at least: probabilities, and sums of them over a volume, need its digits."""
        logits = self.network(image, is_training=is_training)
        return mi.mtf.cast(logits, mi.ops.master_dtype(logits.dtype))

    @staticmethod
    def _of(probability, index):
        return mi.mtf.gather(probability, index, probability.shape.dims[-1])

    @staticmethod
    def _where(labels, index, dtype):
        return mi.mtf.cast(mi.mtf.equal(labels, index), dtype)


def _soft_dice(probability, target, epsilon=1e-6):
    """`(2 sum(p t) + e) / (sum(p) + sum(t) + e)` over all voxels: 1 where both are empty."""
    intersection = mi.ops.over_batch(mi.mtf.reduce_sum(probability * target))
    total = mi.ops.over_batch(mi.mtf.reduce_sum(probability) + mi.mtf.reduce_sum(target))
    return (2 * intersection + epsilon) / (total + epsilon)
