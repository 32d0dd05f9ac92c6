"""The variable names of torchvision's ResNets, in PyTorch or safetensors files."""

import re
from collections.abc import Mapping

import mtf_imaging as mi
from mtf_imaging.models.backbones.weights.structure import Conv, Conversion, NameTable, Shape, Structure

# Names, strides and paddings: torchvision/models/resnet.py; epsilon and momentum are the defaults of
# torch.nn.BatchNorm2d. Image values: torchvision/transforms/_presets.py. Detectors keep a ResNet in backbone.body; its
# norms are FrozenBatchNorm2d (torchvision/ops/misc.py), or BatchNorm2d in networks without pretrained weights.
_CONV = re.compile(r"((?:.*\.)?)layer(\d+)\.(\d+)\.conv1\.weight")
_DETECTOR = "backbone.body."
_SETTINGS = {"padding": "fixed", "pool_padding": "fixed", "norm_epsilon": 1e-5, "norm_momentum": 0.9}
_VALUES = (
    'These weights expect the image scaling "imagenet": red, green and blue in 0..1 minus the mean of ImageNet, '
    "divided by its standard deviation."
)
_EPSILON = (
    "The pretrained detectors of torchvision with the weights COCO_V1 have norm_epsilon = 0.0. Set "
    "resnet.ResNetBackbone.norm_epsilon = 1e-12 for them; the file does not show it."
)
_NORM = {"scale": "weight", "offset": "bias", "moving_mean": "running_mean", "moving_variance": "running_var"}


class TorchVision:
    """Weights of torchvision's ResNet-18 to ResNet-152, and of the ResNets in its detectors: `layer1.0.conv1.weight`.

    Attributes:
      name: the name of the format.
      title: the source of such files.
    """

    name = "torchvision"
    title = "torchvision (layer1.0.conv1.weight, layer1.0.bn1.running_mean)"

    def matches(self, shapes: Mapping[str, Shape]) -> bool:
        """Returns whether the tensors of a file, {name: shape}, have the names of this format."""
        return any(map(_CONV.fullmatch, shapes))

    def table(self, shapes: Mapping[str, Shape]) -> NameTable:
        """Returns the table of a file.

        Args:
          shapes: the tensors of the file, {name: shape}.

        Raises:
          CheckpointError: the blocks in the file differ from a `ResNetBackbone`, or the file has several networks.
        """
        convs = [match for name in sorted(shapes) if (match := _CONV.fullmatch(name))]
        prefixes = sorted({match[1] for match in convs})
        if len(prefixes) > 1:
            raise mi.CheckpointError(
                f"the file has {len(prefixes)} networks of torchvision, with the prefixes "
                f"{', '.join(map(repr, prefixes))}. Fix: use a file of one network."
            )
        structure = _structure(shapes, prefixes[0], [(int(match[2]), int(match[3])) for match in convs])
        names: dict[str, str] = {}
        conversions: dict[str, Conversion] = {}
        for conv in structure.convs():
            own, norm = (f"{prefixes[0]}{name}" for name in _layers(conv))
            conversions[f"{conv.name}/filter"] = torch_filter(f"{own}.weight", conv)
            names |= {f"{conv.name}_norm/{ours}": f"{norm}.{theirs}" for ours, theirs in _NORM.items()}
        notes = (_VALUES, _EPSILON) if prefixes[0] == _DETECTOR else (_VALUES,)
        settings = {**structure.settings, **_SETTINGS}
        return NameTable(structure.title, names, structure.variables(), settings, notes, conversions)


def torch_filter(name: str, conv: Conv) -> Conversion:
    """Returns the conversion of a PyTorch filter, whose axes are outputs, inputs, height and width."""
    shape = (conv.outputs, conv.inputs, conv.kernel_size, conv.kernel_size)
    return Conversion({name: shape}, lambda value: value.transpose(2, 3, 1, 0))


def _structure(shapes: Mapping[str, Shape], prefix: str, numbers: list[tuple[int, int]]) -> Structure:
    """Returns the structure of a network, given the stage number and the block number of each block."""
    stages = max(stage for stage, _ in numbers)
    blocks = tuple(
        1 + max((block for own, block in numbers if own == stage), default=0) for stage in range(1, stages + 1)
    )
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
            f"has {stem[0]} inputs and outputs there. ResNeXt and Wide ResNet have other blocks. Fix: use weights of "
            "ResNet-18, ResNet-34, ResNet-50, ResNet-101 or ResNet-152."
        )
    bottleneck = f"{prefix}layer1.0.conv3.weight" in shapes
    return Structure(blocks, stem[0], channels=stem[1], bottleneck=bottleneck)


def _layers(conv: Conv) -> tuple[str, str]:
    """Returns torchvision's names of a convolution and its norm.

    >>> _layers(Conv("resnet/stage0/block2/conv1", 3, 64, 64))
    ('layer1.2.conv2', 'layer1.2.bn2')
    """
    if conv.name == "resnet/stem":
        return "conv1", "bn1"
    _, stage, block, name = conv.name.split("/")
    scope = f"layer{int(stage.removeprefix('stage')) + 1}.{block.removeprefix('block')}"
    if name == "shortcut":
        return f"{scope}.downsample.0", f"{scope}.downsample.1"
    number = int(name.removeprefix("conv")) + 1
    return f"{scope}.conv{number}", f"{scope}.bn{number}"
