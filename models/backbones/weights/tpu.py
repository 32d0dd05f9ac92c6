"""The names of the ResNets in github.com/tensorflow/tpu, whose layers are numbered in the order of their creation."""

import re
from collections.abc import Mapping, Sequence

import mtf_imaging as mi
from mtf_imaging.models.backbones.weights.structure import (
    IMAGENET_VALUES,
    NO_BASIC_BLOCKS,
    Format,
    NameTable,
    Shape,
    Structure,
    name_table,
)

# Order of the layers, epsilon and momentum: models/official/resnet/resnet_model.py, and for detectors (scope
# "resnet50/") models/official/detection/modeling/architecture/{resnet,nn_blocks,nn_ops}.py. Image values:
# models/official/resnet/resnet_main.py (MEAN_RGB, STDDEV_RGB). The name of the first layer has no number.
_KERNEL = re.compile(r"((?:.*/)?)conv2d(?:_(\d+))?/kernel")
_GAMMA = re.compile(r"((?:.*/)?)batch_normalization(?:_(\d+))?/gamma")
_CLASSIFIER = {"padding": "fixed", "norm_epsilon": 1e-5, "norm_momentum": 0.9}
_DETECTOR = {"padding": "fixed", "norm_epsilon": 1e-4, "norm_momentum": 0.997}
_WITH_SHORTCUT, _WITHOUT = (1, 1, 3, 1), (1, 3, 1)  # kernel sizes of a block, in the order of creation
_KINDS = {_WITH_SHORTCUT: ("shortcut", "conv0", "conv1", "conv2"), _WITHOUT: ("conv0", "conv1", "conv2")}


def _table(shapes: Mapping[str, Shape]) -> NameTable:
    """Returns the table of a checkpoint of a classifier or a detector for TPUs."""
    by_scope = _numbered(shapes, _KERNEL)
    scope = max(sorted(by_scope), key=lambda own: len(by_scope[own]))
    kernels = _in_order(by_scope[scope], "conv2d", "kernel", scope)
    gammas = _in_order(_numbered(shapes, _GAMMA).get(scope, {}), "batch_normalization", "gamma", scope)
    if len(kernels) != len(gammas):
        raise mi.CheckpointError(
            f"the checkpoint has {len(kernels)} convolutions, the last of them '{kernels[-1]}', but {len(gammas)} "
            "norms. A ResNet has a norm after each convolution. Fix: use a complete checkpoint of a ResNet."
        )
    structure, names = _parse(kernels, shapes)
    return name_table(
        structure,
        dict(zip(names, kernels, strict=True)),
        {name: f"{gamma.removesuffix('gamma')}{{}}" for name, gamma in zip(names, gammas, strict=True)},
        _DETECTOR if scope else _CLASSIFIER,
        (IMAGENET_VALUES,),
    )


def _numbered(shapes: Mapping[str, Shape], pattern: re.Pattern) -> dict[str, dict[int, str]]:
    """Returns the names that match a pattern by scope and number. The name without a number has the number 0."""
    found: dict[str, dict[int, str]] = {}
    for name in shapes:
        if match := pattern.fullmatch(name):
            found.setdefault(match[1], {})[int(match[2] or 0)] = name
    return found


def _in_order(names: Mapping[int, str], layer: str, variable: str, scope: str) -> list[str]:
    """Returns names in the order of their numbers, which must have no gap."""
    numbers = range(min(names, default=0), max(names, default=-1) + 1)
    for number in numbers:
        if number not in names:
            raise mi.CheckpointError(
                f"'{scope}{layer}_{number}/{variable}' is missing from the checkpoint, which has the layers "
                f"'{names[numbers[0]]}' to '{names[numbers[-1]]}'. Fix: use a complete checkpoint of a ResNet."
            )
    return [names[number] for number in numbers]


def _parse(kernels: Sequence[str], shapes: Mapping[str, Shape]) -> tuple[Structure, list[str]]:
    """Returns the structure of a network, and this package's name for each of its convolutions.

    Args:
      kernels: the kernel names in order of creation.
      shapes: the variables of the checkpoint, {name: shape}.
    """
    sizes = [shapes[kernel][0] for kernel in kernels]
    if sizes[0] != 7:
        raise mi.CheckpointError(
            f"the first convolution '{kernels[0]}' has shape {list(shapes[kernels[0]])}, but the stem of a ResNet has "
            "a 7 x 7 kernel. Fix: use a checkpoint of a ResNet without the stem of ResNet-D."
        )
    names, blocks, at = ["resnet/stem"], [], 1
    while at < len(kernels):
        kind = next((kind for kind in _KINDS if tuple(sizes[at : at + len(kind)]) == kind), None)
        if kind is None or (kind == _WITHOUT and not blocks):
            raise mi.CheckpointError(
                f"'{kernels[at]}' {list(shapes[kernels[at]])} does not begin a block of three convolutions with 1 x 1, "
                f"3 x 3 and 1 x 1 kernels, after a 1 x 1 shortcut in the first block of a stage. {NO_BASIC_BLOCKS}"
            )
        if kind == _WITH_SHORTCUT:
            blocks.append(0)
        names += [f"resnet/stage{len(blocks) - 1}/block{blocks[-1]}/{conv}" for conv in _KINDS[kind]]
        blocks[-1] += 1
        at += len(kind)
    *_, channels, filters = shapes[kernels[0]]
    return Structure(tuple(blocks), filters, channels=channels), names


TPU = Format("tpu", "tensorflow/tpu (conv2d_1/kernel, batch_normalization_1/gamma)", (_KERNEL, _GAMMA), _table)
