"""The structure of a residual network, its variables, and their names in a checkpoint."""

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import mtf_imaging as mi
from mtf_imaging.models.backbones.blocks import EXPANSION, STEMS

Shape = tuple[int, ...]

_DEPTHS = {(3, 4, 6, 3): 50, (3, 4, 23, 3): 101, (3, 8, 36, 3): 152}
_BASIC_DEPTHS = {(2, 2, 2, 2): 18, (3, 4, 6, 3): 34}
_FILTERS = 64  # in the stem of published networks
# The variables of a norm in this package, and their names in TensorFlow.
NORM = {"scale": "gamma", "offset": "beta", "moving_mean": "moving_mean", "moving_variance": "moving_variance"}
_CONV = re.compile(r"resnet/stage(\d+)/block(\d+)/(?:shortcut|conv(\d+))")

NO_BASIC_BLOCKS = (
    "Networks of blocks of two convolutions, such as ResNet-18 and ResNet-34, have a shortcut in their first block "
    "there that ResNetBackbone lacks. Fix: use a checkpoint of ResNet-50, ResNet-101 or ResNet-152."
)
# The image values that published networks expect.
MEAN_VALUES = 'These weights expect the image scaling "mean": red, green and blue in 0..255 minus the mean of ImageNet.'
IMAGENET_VALUES = (
    'These weights expect the image scaling "imagenet": red, green and blue in 0..1 minus the mean of ImageNet, '
    "divided by its standard deviation."
)


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

    @property
    def place(self) -> tuple[int, int, int] | None:
        """The numbers of the stage, the block and the convolution, from 1. A shortcut is 0, and the stem is None.

        >>> Conv("resnet/stage0/block2/conv1", 3, 64, 64).place, Conv("resnet/stem", 7, 3, 64).place
        ((1, 3, 2), None)
        """
        match = _CONV.fullmatch(self.name)
        return match and (int(match[1]) + 1, int(match[2]) + 1, int(match[3] or -1) + 1)

    @property
    def shape(self) -> Shape:
        """The shape of the filter."""
        return self.kernel_size, self.kernel_size, self.inputs, self.outputs


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
        filters, inputs = self.base_filters, self.channels
        for own in STEMS[self.stem]:
            yield Conv(f"resnet/{own.name}", own.kernel_size, inputs, filters * own.factor)
            inputs = filters * own.factor
        for stage, number in enumerate(self.blocks):
            outputs = EXPANSION * filters if self.bottleneck else filters
            for block in range(number):
                scope = f"resnet/stage{stage}/block{block}"
                if inputs != outputs:
                    yield Conv(f"{scope}/shortcut", 1, inputs, outputs)
                yield Conv(f"{scope}/conv0", 1 if self.bottleneck else 3, inputs, filters)
                yield Conv(f"{scope}/conv1", 3, filters, filters)
                if self.bottleneck:
                    yield Conv(f"{scope}/conv2", 1, filters, outputs)
                inputs = outputs
            filters *= 2

    def variables(self) -> dict[str, Shape]:
        """Returns the shape of each variable, {name: shape}."""
        shapes: dict[str, Shape] = {}
        for conv in self.convs():
            shapes[f"{conv.name}/filter"] = conv.shape
            shapes |= {f"{conv.name}_norm/{name}": (conv.outputs,) for name in NORM}
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


def mean_without_bias(mean: str, bias: str, channels: int) -> Conversion:
    """Returns the conversion of a norm's mean after a layer with a bias, which the layer of this package lacks."""
    return Conversion({mean: (channels,), bias: (channels,)}, lambda value, bias: value - bias)


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
    norm_names: Mapping[str, str] = NORM,
    conversions: Mapping[str, Conversion] = MappingProxyType({}),
) -> NameTable:
    """Returns the table of a checkpoint.

    Args:
      structure: the structure of its network.
      kernels: {name of a convolution of the structure: pattern of its kernel's name}.
      norms: the same for the variables of the norms, with "{}" in place of "gamma", "beta" and so on.
      settings: settings of the format, in addition to the settings of the structure.
      notes: the notes of the table.
      norm_names: {variable of a norm in this package: what replaces "{}"}.
      conversions: {name in this package: conversion} for variables that are not copied.
    """
    names = {}
    for conv in structure.convs():
        names[f"{conv.name}/filter"] = kernels[conv.name]
        names |= {f"{conv.name}_norm/{own}": norms[conv.name].format(other) for own, other in norm_names.items()}
    copied = {name: other for name, other in names.items() if name not in conversions}
    settings = {**structure.settings, **settings}
    return NameTable(structure.title, copied, structure.variables(), settings, notes, dict(conversions))


@dataclasses.dataclass(frozen=True)
class Format:
    """The names of variables in the files of another program.

    Attributes:
      name: the name of the format.
      title: the source of such files.
      patterns: patterns that names in such a file match, each at least one.
      table: returns the table of a file, given {name: shape} of its variables. It raises `CheckpointError` if the
        network in the file differs from the network of this package.
    """

    name: str
    title: str
    patterns: tuple[re.Pattern[str], ...]
    table: Callable[[Mapping[str, Shape]], NameTable]

    def matches(self, shapes: Mapping[str, Shape]) -> bool:
        """Returns whether the variables of a file, {name: shape}, have the names of this format."""
        return all(any(map(pattern.fullmatch, shapes)) for pattern in self.patterns)


def matching(pattern: re.Pattern[str], names: Iterable[str]) -> list[re.Match[str]]:
    """Returns the matches of the names that match a pattern, in the order of the names."""
    return [match for name in sorted(names) if (match := pattern.fullmatch(name))]


def single_prefix(matches: Iterable[re.Match[str]], program: str) -> str:
    """Returns the first group of all matches.

    Raises:
      CheckpointError: they differ, so the file has several networks.
    """
    prefixes = sorted({match[1] for match in matches})
    if len(prefixes) > 1:
        raise mi.CheckpointError(
            f"there are {len(prefixes)} networks of {program}, with the prefixes {', '.join(map(repr, prefixes))}. "
            "Fix: use a file of one network."
        )
    return prefixes[0]


def count_blocks(places: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    """Returns the number of blocks in each stage.

    Args:
      places: the number of the stage and the number in the stage of each block, from 1.
    """
    numbers: dict[int, int] = {}
    for stage, block in places:
        numbers[stage] = max(block, numbers.get(stage, 1))
    return tuple(numbers.get(stage, 1) for stage in range(1, max(numbers) + 1))


def refuse_v2(what: str) -> mi.CheckpointError:
    """Returns the error about a layer of ResNet v2."""
    return mi.CheckpointError(
        f"{what} belongs to ResNet v2, which applies norms before convolutions, but ResNetBackbone has blocks of "
        "ResNet v1. Fix: use weights of ResNet-50, ResNet-101 or ResNet-152 of version 1."
    )
