"""Liver and lesion segmentation: the task of the LiTS challenge, with the loss of Hou et al. 2019."""

import dataclasses

import gin

import mtf_imaging as mi
from mtf_imaging.models.tasks import described
from mtf_imaging.models.unet3d.network import UNet3D
from mtf_imaging.models.unet3d.segmentation import Segmentation
from mtf_imaging.models.unet3d.task import SegmentationTask
from mtf_imaging.parameters import parameter


@gin.configurable(module="unet3d")
@dataclasses.dataclass(eq=False)
class LiverTumorSegmentation(SegmentationTask):
    """Segmentation of a CT into background, liver and lesion.

    The loss is `(1 - dice_weight) weighted cross entropy + dice_weight Dice loss`. The defaults are the settings of Hou
    et al. 2019. If the network returns logits at several resolutions (`UNet3D.deep_supervision`), the loss is the
    weighted mean of the losses of all resolutions (`supervision.level_weights`).

    Attributes:
      network: a function (image, is_training) -> logits. In training, it may return a list of logits: each has half
        the sizes of the previous ones, rounded up, or the strides in the network's attribute `level_strides`. The
        default is a `UNet3D`.
      class_weights: weights of background, liver and lesion voxels in the cross entropy.
      dice_weight: weight of the Dice loss, from 0 to 1.
      dice: the Dice loss. "lesion" is the loss of the lesion, "classes" is the mean of the losses of liver and lesion,
        and "adaptive" is the loss of all classes (`ops.adaptive_dice_loss`).
      dice_over: the cases that the sums of the Dice losses "lesion" and "classes" cover: "case", "batch", or "both" for
        the mean of the two losses (`ops.dice_loss`).
      dice_background: whether "classes" includes the background.
    """

    class_weights: tuple[float, ...] | None = parameter((1.0, 8.0, 16.0), least=0)
    dice_weight: float = parameter(0.2, least=0, most=1)
    dice: str = parameter("lesion", choices=("lesion", "classes", "adaptive"))

    spatial_dims = (3,)

    def __post_init__(self):
        super().__post_init__()
        self.description = mi.data.LITS

    def for_data(self, description):
        """Returns this task for a data set of LiTS.

        Args:
          description: the channels, labels and masks of the data set, an `mi.data.Description`.

        Returns:
          This task.

        Raises:
          ConfigError: the data set does not have one channel and the labels of LiTS.
        """
        described(self, description, "channels", "volumes")
        targets, other = _training_targets(mi.data.LITS), _training_targets(description)
        for name, needed in targets.items():
            if other[name] != needed:
                raise mi.ConfigError(
                    f"{type(self).__name__} needs data with {name} {needed}, but the data set has {name} "
                    f"{other[name]}. Fix: use unet3d.Segmentation, which trains on any channels and labels."
                )
        return self


def _training_targets(description):
    """Returns the training targets of a description: data sets with equal targets can train the same network."""
    return {
        "number of channels": len(description.channels),
        "labels": dict(description.labels),
        "masks": {name: tuple(values) for name, values in description.masks.items()},
        "overlapping regions": description.has_regions,
        "ignore label": description.ignore,
    }


def build_task(description, network, loss):
    """Builds the task for a data set, for `mi.jobs.plan`.

    Args:
      description: the channels, labels and masks of the data set, an `mi.data.Description`.
      network: keyword arguments of `UNet3D`.
      loss: keyword arguments of the task.

    Returns:
      A `LiverTumorSegmentation` for LiTS, and a `Segmentation` for other data sets.
    """
    if description.rules == mi.data.LITS.rules:
        return LiverTumorSegmentation(UNet3D(**network), **loss)
    return Segmentation(UNet3D(**network), labels=description, **loss)
