"""The names of the ResNets in github.com/tensorflow/models/tree/master/official/vision, which are Keras models."""

import re
from collections.abc import Mapping

import mtf_imaging as mi
from mtf_imaging.models.backbones.weights.structure import NameTable, Shape, Structure, name_table

# Layers and attributes of blocks: official/vision/modeling/backbones/resnet.py and
# official/vision/modeling/layers/nn_blocks.py. Epsilon and momentum: configs/image_classification.py, image values:
# ops/preprocess_ops.py there. tf.train.Checkpoint calls layer i of a Keras model with weights "layer_with_weights-i".
# These are a convolution and a norm in the stem, then one layer for each block. The stem of DeepLab (stem_type "v1" of
# modeling/backbones/resnet_deeplab.py) has three convolutions with norms.
_END = "/.ATTRIBUTES/VARIABLE_VALUE"
_BLOCK = re.compile(rf"(.*?)layer_with_weights-(\d+)/_conv1/kernel{_END}")
_EXTRA = re.compile(r"layer_with_weights-\d+/(_shortcut1|_squeeze_excitation)/")  # in ResNet-D and ResNet-RS
_STEMS = {"7x7": ("resnet/stem",), "v1-beta": ("resnet/stem0", "resnet/stem1", "resnet/stem2")}
_FIRST_BLOCK = 2
_CONVS = {"shortcut": ("_shortcut", "_norm0"), "conv0": ("_conv1", "_norm1")}
_CONVS |= {"conv1": ("_conv2", "_norm2"), "conv2": ("_conv3", "_norm3")}
_SETTINGS = {"padding": "same", "norm_epsilon": 1e-5, "norm_momentum": 0.9}
_VALUES = (
    'These weights expect the image scaling "imagenet": red, green and blue in 0..1 minus the mean of ImageNet, '
    "divided by its standard deviation."
)
_ACTIVATION = (
    "The configuration seg_deeplabv3plus_pascal has the activation swish, but ResNetBackbone has ReLU. Features agree "
    "with those of a network with ReLU only; the checkpoint does not show its activation."
)
_VARIANT = "Fix: use a checkpoint of ResNet-50, ResNet-101 or ResNet-152 without the changes of ResNet-D and ResNet-RS."


class TFVision:
    """Checkpoints of the TensorFlow Model Garden: `backbone/layer_with_weights-2/_conv1/kernel/.ATTRIBUTES/...`.

    Attributes:
      name: the name of the format.
      title: the source of such checkpoints.
    """

    name = "tf_vision"
    title = "tensorflow/models, official/vision (backbone/layer_with_weights-2/_conv1/kernel)"

    def matches(self, shapes: Mapping[str, Shape]) -> bool:
        """Returns whether the variables of a checkpoint, {name: shape}, have the names of this format."""
        return any(map(_BLOCK.fullmatch, shapes))

    def table(self, shapes: Mapping[str, Shape]) -> NameTable:
        """Returns the table of a checkpoint.

        Args:
          shapes: the variables of the checkpoint, {name: shape}.

        Raises:
          CheckpointError: the blocks in the checkpoint differ from a `ResNetBackbone`.
        """
        found: dict[str, list[int]] = {}
        for name in shapes:
            if match := _BLOCK.fullmatch(name):
                found.setdefault(match[1], []).append(int(match[2]))
        prefix = max(sorted(found), key=lambda own: len(found[own]))
        layers = {number: f"{prefix}layer_with_weights-{number}/" for number in range(max(found[prefix]) + 1)}
        kernel = f"{layers[0]}kernel{_END}"
        stem = _stem(layers, shapes)
        convs = _STEMS[stem]
        if min(found[prefix]) != 2 * len(convs) or shapes.get(kernel, (7,))[0] != (7 if stem == "7x7" else 3):
            first = f"'{kernel}' {list(shapes.get(kernel, ()))}, and the blocks begin at layer {min(found[prefix])}"
            raise mi.CheckpointError(
                f"the stem is not a 7 x 7 convolution and a norm: the checkpoint has {first}, not {_FIRST_BLOCK}. "
                f"{_VARIANT}"
            )
        for name in sorted(shapes):
            if name.startswith(prefix) and _EXTRA.search(name):
                raise mi.CheckpointError(f"'{name}' has no place in a ResNetBackbone. {_VARIANT}")
        first_block = 2 * len(convs)
        if f"{layers[first_block]}_conv3/kernel{_END}" not in shapes:
            raise mi.CheckpointError(
                f"the block '{layers[first_block]}' has no third convolution. Networks of blocks of two convolutions, "
                "such as ResNet-18 and ResNet-34, have a shortcut in their first block here that ResNetBackbone lacks. "
                "Fix: use a checkpoint of ResNet-50, ResNet-101 or ResNet-152."
            )
        blocks: list[list[str]] = []  # the layers of each stage
        for number in range(first_block, len(layers)):
            if number == first_block or f"{layers[number]}_shortcut/kernel{_END}" in shapes:
                blocks.append([])
            blocks[-1].append(layers[number])
        filters = shapes[f"{layers[min(found[prefix])]}_conv1/kernel{_END}"][-1]
        structure = Structure(tuple(map(len, blocks)), filters, stem, shapes.get(kernel, (7, 7, 3, 64))[2])
        kernels = {name: f"{layers[2 * i]}kernel{_END}" for i, name in enumerate(convs)}
        norms = {name: f"{layers[2 * i + 1]}{{}}{_END}" for i, name in enumerate(convs)}
        for conv in structure.convs():
            if match := re.fullmatch(r"resnet/stage(\d+)/block(\d+)/(\w+)", conv.name):
                layer, (own, norm) = blocks[int(match[1])][int(match[2])], _CONVS[match[3]]
                kernels[conv.name], norms[conv.name] = f"{layer}{own}/kernel{_END}", f"{layer}{norm}/{{}}{_END}"
        notes = (_VALUES,) if stem == "7x7" else (_VALUES, _ACTIVATION)
        return name_table(structure, kernels, norms, _SETTINGS, notes)


def _stem(layers: Mapping[int, str], shapes: Mapping[str, Shape]) -> str:
    """Returns the stem of a network: "v1-beta" has three convolutions with f, f and 2 f filters."""
    kernels = [shapes.get(f"{layers.get(number)}kernel{_END}", ()) for number in (0, 2, 4)]
    if all(len(shape) == 4 and shape[0] == 3 for shape in kernels):
        first, second, third = (shape[-1] for shape in kernels)
        return "v1-beta" if first == second == third // 2 else "7x7"
    return "7x7"
