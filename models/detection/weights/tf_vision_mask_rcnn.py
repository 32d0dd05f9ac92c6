"""The variable names of Mask R-CNN in official/vision of tensorflow/models."""

import re
from collections.abc import Mapping
from typing import Any

import mtf_imaging as mi
from mtf_imaging.models.backbones.weights.structure import Format, NameTable, Shape
from mtf_imaging.models.detection.weights.tf_vision import COCO_NOTE, END, Table, kept_classes

# Layers: modeling/heads/dense_prediction_heads.py (RPNHead) and modeling/heads/instance_heads.py. Momentum and epsilon:
# maskrcnn_resnetfpn_coco in configs/maskrcnn.py. Layers before a norm have a bias there.
_BOX = re.compile(rf"(.*?detection_head/(?:0/)?)_fcs/0/kernel{END}")
_RPN = re.compile(rf"(.*?rpn_head/)_convs/0/kernel{END}")
_MASK = re.compile(rf"(.*?mask_head/)_deconv/kernel{END}")
_NORM = {"norm_epsilon": 1e-4, "norm_momentum": 0.997}
_HEADS = {"rpn_head/_convs/0": _RPN, "detection_head/0/_fcs/0": _BOX, "mask_head/_deconv": _MASK}
_COORDS = 4
_UPSAMPLE = 2


def _table(shapes: Mapping[str, Shape]) -> NameTable:
    """Returns the table of a checkpoint of Mask R-CNN with a ResNet and an FPN."""
    rpn, box, mask = (_prefix(name, shapes) for name in _HEADS)
    table = Table(shapes)
    anchors = _add_rpn(table, rpn)
    network = {"norm": True, "rpn_filters": table.shape(f"{rpn}_convs/0/kernel")[-1]}
    network |= _add_box_head(table, box) | _add_mask_head(table, mask)
    if anchors != 3:
        raise mi.CheckpointError(
            f"'{rpn}_classifier' has {anchors} anchors in each cell, but MaskRCNN has 3 by default. "
            "Fix: use a checkpoint with one scale and three ratios."
        )
    classes = table.shape(f"{box}_classifier/bias")[0]
    notes = (COCO_NOTE,) if len(kept_classes(classes)) < classes else ()
    return table.finish("Mask R-CNN", "detection.MaskRCNN", _NORM, network, notes)


def _prefix(layer: str, shapes: Mapping[str, Shape]) -> str:
    """Returns the prefix of a head's attributes, such as "rpn_head/", given the name of one of its layers."""
    prefixes = sorted({match[1] for name in shapes if (match := _HEADS[layer].fullmatch(name))}, key=len)
    if not prefixes:
        raise mi.CheckpointError(
            f"there is no variable '{layer}/kernel{END}'. Fix: use a complete checkpoint of Mask R-CNN."
        )
    return prefixes[0]


def _add_rpn(table: Table, head: str) -> int:
    """Adds the region proposal network. Returns its number of anchors."""
    filters = table.shape(f"{head}_convs/0/kernel")[-1]
    anchors = table.shape(f"{head}_classifier/bias")[0]
    if (convs := table.count(f"{head}_convs/")) != 1:
        raise mi.CheckpointError(
            f"'{head}_convs' has {convs} convolutions, but the region proposal network of MaskRCNN has 1. "
            "Fix: use a checkpoint with num_convs = 1, or import the backbone only, as tf_vision."
        )
    table.copy("rpn/conv/filter", f"{head}_convs/0/kernel", (3, 3, table.filters, filters))
    for number, level in enumerate(table.levels):
        table.norm(f"rpn/conv/level{level}_norm", f"{head}_norms/{number}/0", filters, f"{head}_convs/0/bias")
    _add_outputs(table, "rpn/scores", f"{head}_classifier", (1, 1, filters, anchors), (anchors,))
    _add_outputs(table, "rpn/boxes", f"{head}_box_regressor", (1, 1, filters, anchors * _COORDS), (anchors, _COORDS))
    return anchors


def _add_box_head(table: Table, head: str) -> dict[str, object]:
    """Adds the box head. Returns its settings."""
    convs, denses = table.count(f"{head}_convs/"), table.count(f"{head}_fcs/")
    inputs = table.filters
    for i in range(convs):
        inputs = _add_conv(table, f"box_head/conv{i}", f"{head}_convs/{i}", f"{head}_conv_norms/{i}", inputs)
    length, units = table.shape(f"{head}_fcs/0/kernel")
    size = round((length / inputs) ** 0.5)
    shape: Shape = (size, size, inputs, units)
    for i in range(denses):
        table.reshape(f"box_head/dense{i}/weights", f"{head}_fcs/{i}/kernel", (length, units), shape)
        table.norm(f"box_head/dense{i}/norm", f"{head}_fc_norms/{i}", units, f"{head}_fcs/{i}/bias")
        length, shape = units, (units, units)
    classes = table.shape(f"{head}_classifier/bias")[0]
    kept = kept_classes(classes)
    _add_outputs(table, "box_head/classes", f"{head}_classifier", (units, classes), (classes,), kept)
    _add_outputs(table, "box_head/boxes", f"{head}_box_regressor", (units, classes * _COORDS), (classes, _COORDS), kept)
    settings = {"classes": len(kept) - 1, "box_size": size, "box_convs": convs, "box_dense": denses, "box_units": units}
    return settings if not convs else {**settings, "box_filters": inputs}


def _add_mask_head(table: Table, head: str) -> dict[str, object]:
    """Adds the mask head. Returns its settings."""
    convs, inputs = table.count(f"{head}_convs/"), table.filters
    for i in range(convs):
        inputs = _add_conv(table, f"mask_head/conv{i}", f"{head}_convs/{i}", f"{head}_conv_norms/{i}", inputs)
    kernel = (_UPSAMPLE, _UPSAMPLE, inputs, inputs)
    table.copy("mask_head/upsample/filter", f"{head}_deconv/kernel", kernel)
    table.norm("mask_head/upsample/norm", f"{head}_deconv_bn", inputs, f"{head}_deconv/bias")
    classes = table.shape(f"{head}_mask_regressor/bias")[0]
    _add_outputs(
        table, "mask_head/masks", f"{head}_mask_regressor", (1, 1, inputs, classes), (classes,), kept_classes(classes)
    )
    return {"mask_filters": inputs, "mask_convs": convs}


def _add_conv(table: Table, own: str, conv: str, norm: str, inputs: int) -> int:
    """Adds a 3 x 3 convolution with a norm. Returns its number of filters."""
    filters = table.shape(f"{conv}/kernel")[-1]
    table.copy(f"{own}/filter", f"{conv}/kernel", (3, 3, inputs, filters))
    table.norm(f"{own}/norm", norm, filters, f"{conv}/bias")
    return filters


def _add_outputs(
    table: Table, own: str, name: str, source: Shape, outputs: Shape, kept: list[int] | None = None
) -> None:
    """Adds the weights and the bias of a linear function of the channels.

    Args:
      table: the table.
      own, name: the scope in this package and in the checkpoint.
      source: the shape of the kernel in the checkpoint.
      outputs: the shape of its last axis, as several dimensions.
      kept: the indices along the first of these dimensions to import. None imports all.
    """
    shape = outputs if kept is None else (len(kept), *outputs[1:])

    def select(value: Any, outer: Shape) -> Any:
        value = value.reshape(*outer, *outputs)
        return value if kept is None else value.take(kept, axis=len(outer))

    inputs = source[-2:-1]
    table.convert(f"{own}/weights", f"{name}/kernel", source, (*inputs, *shape), lambda value: select(value, inputs))
    table.convert(f"{own}/bias", f"{name}/bias", source[-1:], shape, lambda value: select(value, ()))


TF_VISION_MASK_RCNN = Format(
    "tf_vision_mask_rcnn",
    "Mask R-CNN of tensorflow/models, official/vision (detection_head/0/_fcs/0/kernel)",
    (_BOX,),
    _table,
)
