"""Segmentation of any labels or regions, in images with any number of channels."""

import dataclasses
from collections.abc import Mapping, Sequence

import gin

import mtf_imaging as mi
from mtf_imaging.models.unet3d.task import SegmentationTask


@gin.configurable(module="unet3d")
@dataclasses.dataclass(eq=False)
class Segmentation(SegmentationTask):
    """Segmentation of an image into labels that exclude each other, or into regions that may overlap.

    Labels are predicted with a softmax over the background and the labels. Each region is predicted with a sigmoid. The
    loss is `(1 - dice_weight) weighted cross entropy + dice_weight Dice loss`. If the network returns logits at several
    resolutions (`UNet3D.deep_supervision`), the loss is the weighted mean of the losses of all resolutions
    (`supervision.level_weights`). Voxels with the ignore label contribute to none of these losses.

    The network processes images of one plane (z = 1), such as PNG and TIFF files, in 2-D.

    `channels`, `labels`, `regions`, `region_order` and `ignore` make the task usable without a data set.
    `task.for_data(description)` replaces all of them by the values of a data set.

    Attributes:
      network: a function (image, is_training) -> logits. In training, it may return a list of logits: each has half
        the sizes of the previous ones, rounded up, or the strides in the network's attribute `level_strides`. The
        default is a `UNet3D`, whose number of classes follows from the labels or regions.
      channels: number of channels of an image, or their names.
      labels: number of labels without the background, or their names in the order of their values 1, 2, .... An
        `mi.data.Description` sets the channels, regions and the ignore label, too.
      regions: {name: values of its labels}, from the whole to its parts, for a sigmoid per region. None selects the
        softmax over the labels.
      region_order: the label that the voxels of each region get, in the order in which regions are painted over each
        other. None selects the first label of each region.
      ignore: value of the label whose voxels do not count. None if there is no such label.
      class_weights: weights of the background and the labels, or of the regions, in the cross entropy. None weights all
        by 1.
      dice_weight: weight of the Dice loss, from 0 to 1.
      dice: the Dice loss. "masks" is the mean of the losses of all masks, which are the regions, or what the data set
        scores; "classes" is the mean of the losses of all labels; the name of a mask selects its loss alone; and
        "adaptive" is the loss of all labels and the background (`ops.adaptive_dice_loss`). Regions have no "classes"
        and no "adaptive".
      dice_over: the cases that the sums of all Dice losses but "adaptive" cover: "case", "batch", or "both" for the
        mean of the two losses (`ops.dice_loss`).
      dice_background: whether "classes" includes the background.
    """

    channels: int | Sequence[str] = 1
    labels: int | Sequence[str] | mi.data.Description = 2
    regions: Mapping[str, Sequence[int]] | None = None
    region_order: Sequence[int] | None = None
    ignore: int | None = None

    flat_in_2d = True

    def __post_init__(self):
        super().__post_init__()
        is_described = isinstance(self.labels, mi.data.Description)
        self.description = self.labels if is_described else self._description()

    def _description(self):
        """Returns the description that the parameters define.

        Raises:
          ConfigError: labels or regions have invalid values.
        """
        owner = type(self).__name__
        channels = _names(f"{owner}.channels", self.channels, "channel", 0)
        labels = {name: value for value, name in enumerate(_names(f"{owner}.labels", self.labels, "label", 1), 1)}
        if self.ignore in labels.values():
            raise mi.ConfigError(
                f"{owner}.ignore = {self.ignore}: it is the value of the label {[*labels][self.ignore - 1]!r}. "
                f"Fix: use {len(labels) + 1}, or None."
            )
        if not self.regions:
            masks = {name: (value,) for name, value in labels.items()}
            return mi.data.Description(channels, labels, masks, ignore=self.ignore)
        masks = {name: (own,) if isinstance(own, int) else tuple(own) for name, own in self.regions.items()}
        order = self.region_order or tuple(value for own in masks.values() for value in own[:1])
        used = {*order, *(value for own in masks.values() for value in own)}
        if len(order) != len(masks) or not used <= {*labels.values()}:
            raise mi.ConfigError(
                f"{owner}.regions = {masks} with {owner}.region_order = {order}: each region must have labels and a "
                f"place in the order, from the labels 1 to {len(labels)}. Fix: use these values, or set {owner}.labels."
            )
        return mi.data.Description(channels, labels, masks, order, self.ignore)


def _names(where, names, kind, first):
    """Returns the names of channels or labels; a number stands for that many names."""
    if isinstance(names, int):
        return tuple(f"{kind}_{index}" for index in range(first, first + names))
    if len({*names}) < len(names):
        raise mi.ConfigError(f"{where} = {names!r}: two names are equal. Fix: use distinct names.")
    return names
