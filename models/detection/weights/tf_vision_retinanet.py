"""The variable names of RetinaNet in official/vision of tensorflow/models."""

import re
from collections.abc import Mapping
from typing import Any

import mtf_imaging as mi
from mtf_imaging.models.backbones.weights.structure import Format, NameTable, Shape, matching
from mtf_imaging.models.detection.weights.tf_vision import COCO_NOTE, END, Table, kept_classes

# Layers: modeling/heads/dense_prediction_heads.py. Momentum and epsilon: the defaults of NormActivation in
# configs/common.py, which configs/retinanet.py keeps.
_HEAD = re.compile(rf"(.*?head/)_cls_convs/0/kernel{END}")
_NORM = {"norm_epsilon": 1e-3, "norm_momentum": 0.99}
_ANCHORS = 9
_COORDS = 4
_NOTES = (
    "In the checkpoint, class 0 is the background, which is not imported, because RetinaNet has no background here.",
)
_SUBNETS = {"class_head": "cls", "box_head": "box"}


def _table(shapes: Mapping[str, Shape]) -> NameTable:
    """Returns the table of a checkpoint of RetinaNet with a ResNet and an FPN."""
    head = matching(_HEAD, shapes)[0][1]
    table = Table(shapes)
    convs = table.count(f"{head}_cls_convs/")
    filters = table.shape(f"{head}_cls_convs/0/kernel")[-1]
    anchors = table.shape(f"{head}_box_regressor/bias")[0] // _COORDS
    classes = table.shape(f"{head}_classifier/bias")[0] // anchors
    if anchors != _ANCHORS:
        raise mi.CheckpointError(
            f"'{head}_box_regressor' has {anchors} anchors in each cell, but RetinaNet has {_ANCHORS} by default. "
            "Fix: use a checkpoint with three scales and three ratios, or import the backbone only, as tf_vision."
        )
    for own, name in _SUBNETS.items():
        for i in range(convs):
            table.conv(f"{own}/conv{i}", f"{head}_{name}_convs/{i}", (3, 3, filters, filters))
            for number, level in enumerate(table.levels):
                norm = f"{head}_{name}_norms/{number}/{i}"
                table.norm(f"{own}/conv{i}_level{level}_norm", norm, filters)
    table.conv("box_head/predictions", f"{head}_box_regressor", (3, 3, filters, anchors * _COORDS))
    kept = kept_classes(classes)[1:]
    for own, name, outer in (("filter", "kernel", (3, 3, filters)), ("bias", "bias", ())):
        table.convert(
            f"class_head/predictions/{own}",
            f"{head}_classifier/{name}",
            (*outer, anchors * classes),
            (*outer, anchors * len(kept)),
            lambda value: _selected(value, anchors, classes, kept),
        )
    network = {"classes": len(kept), "head_convs": convs}
    notes = (*_NOTES, COCO_NOTE) if len(kept) < classes - 1 else _NOTES
    return table.finish("RetinaNet", "detection.RetinaNet", _NORM, network, notes)


def _selected(value: Any, anchors: int, classes: int, kept: list[int]) -> Any:
    """Selects the classes of each anchor along the last axis."""
    outer = value.shape[:-1]
    return value.reshape(*outer, anchors, classes)[..., kept].reshape(*outer, anchors * len(kept))


TF_VISION_RETINANET = Format(
    "tf_vision_retinanet",
    "RetinaNet of tensorflow/models, official/vision (head/_cls_convs/0/kernel)",
    (_HEAD,),
    _table,
)
