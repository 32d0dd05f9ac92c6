"""The variable names of torchvision's ResNets, in PyTorch or safetensors files."""

import re
from collections.abc import Mapping

import mtf_imaging as mi
from mtf_imaging.models.backbones.weights.structure import (
    IMAGENET_VALUES,
    Conv,
    Conversion,
    Format,
    NameTable,
    Shape,
    Structure,
    count_blocks,
    matching,
    name_table,
    single_prefix,
)

# Names, strides and paddings: torchvision/models/resnet.py; epsilon and momentum are the defaults of
# torch.nn.BatchNorm2d. Image values: torchvision/transforms/_presets.py. Detectors keep a ResNet in backbone.body; its
# norms are FrozenBatchNorm2d (torchvision/ops/misc.py), or BatchNorm2d in networks without pretrained weights.
_CONV = re.compile(r"((?:.*\.)?)layer(\d+)\.(\d+)\.conv1\.weight")
_DETECTOR = "backbone.body."
_SETTINGS = {"padding": "fixed", "pool_padding": "fixed", "norm_epsilon": 1e-5, "norm_momentum": 0.9}
_EPSILON = (
    "The pretrained detectors of torchvision with the weights COCO_V1 have norm_epsilon = 0.0. Set "
    "resnet.ResNetBackbone.norm_epsilon = 1e-12 for them; the file does not show it."
)
_NORM = {"scale": "weight", "offset": "bias", "moving_mean": "running_mean", "moving_variance": "running_var"}


def _table(shapes: Mapping[str, Shape]) -> NameTable:
    """Returns the table of a file of ResNet-18 to ResNet-152, or of a detector with one of them."""
    matches = matching(_CONV, shapes)
    prefix = single_prefix(matches, "torchvision")
    structure = _structure(shapes, prefix, count_blocks((int(match[2]), int(match[3]) + 1) for match in matches))
    layers = {conv.name: [f"{prefix}{name}" for name in _layers(conv)] for conv in structure.convs()}
    return name_table(
        structure,
        {name: f"{own}.weight" for name, (own, _) in layers.items()},
        {name: f"{norm}.{{}}" for name, (_, norm) in layers.items()},
        _SETTINGS,
        (IMAGENET_VALUES, _EPSILON) if prefix == _DETECTOR else (IMAGENET_VALUES,),
        _NORM,
        {f"{conv.name}/filter": torch_filter(f"{layers[conv.name][0]}.weight", conv) for conv in structure.convs()},
    )


def torch_filter(name: str, conv: Conv) -> Conversion:
    """Returns the conversion of a PyTorch filter, whose axes are outputs, inputs, height and width."""
    shape = (conv.outputs, conv.inputs, conv.kernel_size, conv.kernel_size)
    return Conversion({name: shape}, lambda value: value.transpose(2, 3, 1, 0))


def _structure(shapes: Mapping[str, Shape], prefix: str, blocks: tuple[int, ...]) -> Structure:
    """Returns the structure of a network, given the number of blocks in each stage."""
    stem, first = (shapes.get(f"{prefix}{name}.weight") for name in ("conv1", "layer1.0.conv1"))
    if stem is None or first is None or len(stem) != 4 or stem[-1] != 7:
        raise mi.CheckpointError(
            f"the stem is not a 7 x 7 convolution '{prefix}conv1.weight'. Fix: use weights of a ResNet of torchvision "
            "without the stem of ResNet-D."
        )
    inner = shapes.get(f"{prefix}layer1.0.conv2.weight", ())
    if first[0] != stem[0] or inner[:2] != (first[0], first[0]):
        raise mi.CheckpointError(
            f"'{prefix}layer1.0.conv2.weight' has shape {list(inner)}, but a ResNet with a stem of {stem[0]} filters "
            f"has {stem[0]} inputs and outputs there, unlike ResNeXt and Wide ResNet. Fix: use weights of a ResNet."
        )
    bottleneck = f"{prefix}layer1.0.conv3.weight" in shapes
    return Structure(blocks, stem[0], channels=stem[1], bottleneck=bottleneck)


def _layers(conv: Conv) -> tuple[str, str]:
    """Returns torchvision's names of a convolution and its norm.

    >>> _layers(Conv("resnet/stage0/block2/conv1", 3, 64, 64))
    ('layer1.2.conv2', 'layer1.2.bn2')
    """
    if conv.place is None:
        return "conv1", "bn1"
    stage, block, number = conv.place
    names = (f"conv{number}", f"bn{number}") if number else ("downsample.0", "downsample.1")
    first, second = (f"layer{stage}.{block - 1}.{name}" for name in names)
    return first, second


TORCHVISION = Format("torchvision", "torchvision (layer1.0.conv1.weight, layer1.0.bn1.running_mean)", (_CONV,), _table)
