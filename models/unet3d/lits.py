"""Liver and lesion segmentation: the task of the LiTS challenge, with the loss of Hou et al. 2019."""

from collections.abc import Callable

import gin

import mtf_imaging as mi
from mtf_imaging.models.unet3d.task import SegmentationTask

_DICE = ("lesion", "classes", "adaptive")


@gin.configurable(module="unet3d")
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

    spatial_dims = (3,)
    _other_dice = "'lesion' or 'classes'"

    def __init__(
        self,
        network: Callable | None = None,
        class_weights=(1.0, 8.0, 16.0),
        dice_weight=0.2,
        dice="lesion",
        dice_over="both",
        dice_background=False,
    ):
        if dice not in _DICE:
            raise mi.ConfigError(
                f"{type(self).__name__}.dice = {dice!r} is not known. Fix: choose one of {', '.join(_DICE)}."
            )
        super().__init__(network, mi.data.LITS, class_weights, dice_weight, dice, dice_over, dice_background)

    def for_data(self, description):
        """Returns this task for a data set of LiTS.

        Args:
          description: the channels, labels and masks of the data set, an `mi.data.Description`.

        Returns:
          This task.

        Raises:
          ConfigError: the data set does not have one channel and the labels of LiTS.
        """
        self.check_channels(description)
        if _training_targets(description) != _training_targets(mi.data.LITS):
            raise mi.ConfigError(
                f"{type(self).__name__}: this task trains on one channel with the {_labels(mi.data.LITS)}, but the "
                f"data set has the {_channels(description)} and the {_labels(description)}. "
                "Fix: use unet3d.Segmentation, which trains on any channels and labels."
            )
        return self


def _training_targets(description):
    """Returns the training targets of a description: data sets with equal targets can train the same network."""
    masks = {name: tuple(values) for name, values in description.masks.items()}
    return len(description.channels), dict(description.labels), masks, description.has_regions, description.ignore


def _channels(description):
    return f"channel{'s' * (len(description.channels) > 1)} {', '.join(description.channels)}"


def _labels(description):
    """Returns the labels, regions and ignore label of a description, as in "labels liver = 1, lesion = 2"."""
    text = "labels " + ", ".join(f"{name} = {value}" for name, value in description.labels.items())
    if description.has_regions:
        text += f", regions {', '.join(description.masks)}"
    return text if description.ignore is None else f"{text}, ignore = {description.ignore}"
