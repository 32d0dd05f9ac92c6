"""Segmentation of any labels or regions, in images with any number of channels."""

from collections.abc import Callable, Mapping, Sequence

import gin

import mtf_imaging as mi
from mtf_imaging.models.unet3d.task import SegmentationTask


@gin.configurable(module="unet3d")
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

    flat_in_2d = True

    def __init__(
        self,
        network: Callable | None = None,
        channels: int | Sequence[str] = 1,
        labels: int | Sequence[str] | mi.data.Description = 2,
        regions: Mapping[str, Sequence[int]] | None = None,
        region_order: Sequence[int] | None = None,
        ignore: int | None = None,
        class_weights: Sequence[float] | None = None,
        dice_weight=0.5,
        dice="masks",
        dice_over="both",
        dice_background=False,
    ):
        if isinstance(labels, mi.data.Description):
            description = labels
        else:
            description = _description(type(self).__name__, channels, labels, regions, region_order, ignore)
        super().__init__(network, description, class_weights, dice_weight, dice, dice_over, dice_background)


def _description(owner, channels, labels, regions, region_order, ignore):
    """Returns the description that the arguments of `Segmentation` define.

    Raises:
      ConfigError: an argument has an invalid value.
    """
    channels = _names(f"{owner}.channels", channels, "channel", 0)
    labels = {name: value for value, name in enumerate(_names(f"{owner}.labels", labels, "label", 1), 1)}
    if ignore is not None and (not isinstance(ignore, int) or ignore < 0 or ignore in (0, *labels.values())):
        raise mi.ConfigError(
            f"{owner}.ignore = {ignore!r}: it must be the value of a label that is not trained, but the background is "
            f"0 and the labels are {_listed(labels.values())}. Fix: use {len(labels) + 1}, or None."
        )
    if regions is None:
        if region_order is not None:
            raise mi.ConfigError(
                f"{owner}.region_order = {region_order!r}: it applies only to {owner}.regions, which is None. "
                f"Fix: set {owner}.regions, or leave it out."
            )
        return mi.data.Description(channels, labels, {name: (value,) for name, value in labels.items()}, ignore=ignore)
    masks = _masks(owner, regions, set(labels.values()))
    order = tuple(values[0] for values in masks.values()) if region_order is None else tuple(region_order)
    if len(order) != len(masks) or not set(order) <= set(labels.values()):
        raise mi.ConfigError(
            f"{owner}.region_order = {region_order!r}: it must have a label for each of the {len(masks)} regions, from "
            f"the labels {_listed(labels.values())}."
        )
    return mi.data.Description(channels, labels, masks, order, ignore)


def _masks(owner, regions, values):
    """Returns {region: values of its labels}."""
    masks = {name: (labels,) if isinstance(labels, int) else tuple(labels) for name, labels in regions.items()}
    if not masks:
        raise mi.ConfigError(f"{owner}.regions = {{}}: there must be at least one region. Fix: use None for labels.")
    for name, labels in masks.items():
        if not labels or not set(labels) <= values:
            raise mi.ConfigError(
                f"{owner}.regions: region {name!r} has the labels {_listed(labels) or 'none'}, but the labels are "
                f"{_listed(sorted(values))}. Fix: use these values, or set {owner}.labels."
            )
    return masks


def _names(where, names, kind, first):
    """Returns the names of channels or labels; a number stands for that many names."""
    if isinstance(names, int) and not isinstance(names, bool) and names > 0:
        return tuple(f"{kind}_{index}" for index in range(first, first + names))
    are_names = isinstance(names, list | tuple) and names and all(isinstance(name, str) for name in names)
    if are_names and len(set(names)) == len(names):
        return tuple(names)
    raise mi.ConfigError(f"{where} = {names!r}: it must be an int of at least 1, or distinct names.")


def _listed(values):
    return ", ".join(map(str, values))
