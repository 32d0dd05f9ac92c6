"""The structure of a residual network, its variables, and their names in a checkpoint."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from mtf_imaging.models.backbones.blocks import EXPANSION

Shape = tuple[int, ...]

_DEPTHS = {(3, 4, 6, 3): 50, (3, 4, 23, 3): 101, (3, 8, 36, 3): 152}
_BASIC_DEPTHS = {(2, 2, 2, 2): 18, (3, 4, 6, 3): 34}
_FILTERS = 64  # in the stem of published networks
# The variables of a norm in this package, and their names in TensorFlow.
_NORM = {"scale": "gamma", "offset": "beta", "moving_mean": "moving_mean", "moving_variance": "moving_variance"}


class Conv(NamedTuple):
    """A convolution of a `ResNetBackbone`, which a batch norm follows.

    Attributes:
      name: its scope, such as "resnet/stage0/block0/conv1".
      kernel_size: size of the kernel in pixels.
      inputs, outputs: number of channels before and after it.
    """

    name: str
    kernel_size: int
    inputs: int
    outputs: int


@dataclasses.dataclass(frozen=True)
class Structure:
    """The structure of a residual network, which its weights determine.

    Attributes:
      blocks: number of blocks in each stage.
      base_filters: number of filters of the stem and the first stage.
      stem: "7x7" or "v1-beta".
      channels: number of channels of an image.
      bottleneck: whether a block has three convolutions; otherwise, it has two 3 x 3 convolutions.
    """

    blocks: tuple[int, ...]
    base_filters: int = _FILTERS
    stem: str = "7x7"
    channels: int = 3
    bottleneck: bool = True

    @property
    def title(self) -> str:
        """The name of the network, such as "ResNet-50"."""
        depth = (_DEPTHS if self.bottleneck else _BASIC_DEPTHS).get(self.blocks)
        name = f"ResNet-{depth}" if depth and self.base_filters == _FILTERS else "a ResNet"
        return name if self.stem == "7x7" else f"{name} with the stem {self.stem}"

    @property
    def settings(self) -> dict[str, object]:
        """The settings of a `ResNetBackbone` of this structure."""
        settings = {"blocks": self.blocks, "base_filters": self.base_filters, "stem": self.stem}
        return settings if self.bottleneck else {**settings, "bottleneck": False}

    def convs(self) -> Iterator[Conv]:
        """Yields all convolutions."""
        filters, inputs = self.base_filters, self.base_filters
        if self.stem == "7x7":
            yield Conv("resnet/stem", 7, self.channels, filters)
        else:
            yield Conv("resnet/stem0", 3, self.channels, filters)
            yield Conv("resnet/stem1", 3, filters, filters)
            yield Conv("resnet/stem2", 3, filters, 2 * filters)
            inputs = 2 * filters
        for stage, number in enumerate(self.blocks):
            outputs = EXPANSION * filters if self.bottleneck else filters
            for block in range(number):
                scope = f"resnet/stage{stage}/block{block}"
                if inputs != outputs:
                    yield Conv(f"{scope}/shortcut", 1, inputs, outputs)
                if self.bottleneck:
                    yield Conv(f"{scope}/conv0", 1, inputs, filters)
                    yield Conv(f"{scope}/conv1", 3, filters, filters)
                    yield Conv(f"{scope}/conv2", 1, filters, outputs)
                else:
                    yield Conv(f"{scope}/conv0", 3, inputs, filters)
                    yield Conv(f"{scope}/conv1", 3, filters, filters)
                inputs = outputs
            filters *= 2

    def variables(self) -> dict[str, Shape]:
        """Returns the shape of each variable, {name: shape}."""
        shapes: dict[str, Shape] = {}
        for conv in self.convs():
            shapes[f"{conv.name}/filter"] = (conv.kernel_size, conv.kernel_size, conv.inputs, conv.outputs)
            shapes |= {f"{conv.name}_norm/{name}": (conv.outputs,) for name in _NORM}
        return shapes


@dataclasses.dataclass(frozen=True)
class Conversion:
    """The conversion of a checkpoint's arrays to a variable.

    Attributes:
      shapes: the names of the arrays and their shapes, {name: shape}.
      convert: computes the variable from the arrays, NumPy arrays in this order.
    """

    shapes: Mapping[str, Shape]
    convert: Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class NameTable:
    """The variable names of a network in a checkpoint.

    Attributes:
      title: the name of the network.
      names: {name in this package: name in the checkpoint} for copied variables.
      shapes: {name in this package: shape} for all variables.
      settings: the settings of a `ResNetBackbone` that computes the same features, {name: value}.
      notes: further requirements, in sentences.
      conversions: {name in this package: conversion} for converted variables.
      network_settings: the settings of a network around the backbone, {"detection.RetinaNet.classes": value}.
    """

    title: str
    names: dict[str, str]
    shapes: dict[str, Shape]
    settings: dict[str, object]
    notes: tuple[str, ...]
    conversions: dict[str, Conversion] = dataclasses.field(default_factory=dict)
    network_settings: dict[str, object] = dataclasses.field(default_factory=dict)


def name_table(
    structure: Structure,
    kernels: Mapping[str, str],
    norms: Mapping[str, str],
    settings: Mapping[str, object],
    notes: tuple[str, ...],
) -> NameTable:
    """Returns the table of a checkpoint.

    Args:
      structure: the structure of its network.
      kernels: {name of a convolution of the structure: pattern of its kernel's name}.
      norms: the same for the variables of the norms, with "{}" in place of "gamma", "beta" and so on.
      settings: settings of the format, in addition to the settings of the structure.
      notes: the notes of the table.
    """
    names = {}
    for conv in structure.convs():
        names[f"{conv.name}/filter"] = kernels[conv.name]
        names |= {f"{conv.name}_norm/{own}": norms[conv.name].format(other) for own, other in _NORM.items()}
    return NameTable(structure.title, names, structure.variables(), {**structure.settings, **settings}, notes)
