"""The names of the ResNets in github.com/tensorflow/models/tree/master/official/vision, which are Keras models."""

import re
from collections.abc import Mapping, Sequence

import mtf_imaging as mi
from mtf_imaging.models.backbones.blocks import STEMS
from mtf_imaging.models.backbones.weights.structure import (
    IMAGENET_VALUES,
    NO_BASIC_BLOCKS,
    Format,
    NameTable,
    Shape,
    Structure,
    matching,
    name_table,
)

# Layers and attributes of blocks: official/vision/modeling/backbones/resnet.py and
# official/vision/modeling/layers/nn_blocks.py. Epsilon and momentum: configs/image_classification.py, image values:
# ops/preprocess_ops.py there. tf.train.Checkpoint calls layer i of a Keras model with weights "layer_with_weights-i".
# These are a convolution and a norm in the stem, then one layer for each block. The stem of DeepLab (stem_type "v1" of
# modeling/backbones/resnet_deeplab.py) has three convolutions with norms.
_END = "/.ATTRIBUTES/VARIABLE_VALUE"
_BLOCK = re.compile(rf"(.*?)layer_with_weights-(\d+)/_conv1/kernel{_END}")
_EXTRA = re.compile(r"layer_with_weights-\d+/(_shortcut1|_squeeze_excitation)/")  # in ResNet-D and ResNet-RS
_SETTINGS = {"padding": "same", "norm_epsilon": 1e-5, "norm_momentum": 0.9}
_ACTIVATION = (
    "The configuration seg_deeplabv3plus_pascal has the activation swish, but ResNetBackbone has ReLU. Features agree "
    "with those of a network with ReLU only; the checkpoint does not show its activation."
)
_VARIANT = "Fix: use a checkpoint of ResNet-50, ResNet-101 or ResNet-152 without the changes of ResNet-D and ResNet-RS."


def tf_vision_table(shapes: Mapping[str, Shape]) -> NameTable:
    """Returns the table of a checkpoint of the TensorFlow Model Garden, also of a network around a ResNet."""
    found: dict[str, list[int]] = {}
    for match in matching(_BLOCK, shapes):
        found.setdefault(match[1], []).append(int(match[2]))
    prefix = max(found, key=lambda own: len(found[own]))
    first_block, last_block = min(found[prefix]), max(found[prefix])
    layers = [f"{prefix}layer_with_weights-{number}/" for number in range(last_block + 1)]
    kernel = f"{layers[0]}kernel{_END}"
    stem = _stem(layers, shapes)
    convs = [f"resnet/{conv.name}" for conv in STEMS[stem]]
    if first_block != 2 * len(convs) or shapes.get(kernel, (7,))[0] != (7 if stem == "7x7" else 3):
        raise mi.CheckpointError(
            f"the stem is not a 7 x 7 convolution and a norm: the checkpoint has '{kernel}' "
            f"{list(shapes.get(kernel, ()))}, and the blocks begin at layer {first_block}, not 2. {_VARIANT}"
        )
    for name in sorted(shapes):
        if name.startswith(prefix) and _EXTRA.search(name):
            raise mi.CheckpointError(f"'{name}' has no place in a ResNetBackbone. {_VARIANT}")
    if f"{layers[first_block]}_conv3/kernel{_END}" not in shapes:
        raise mi.CheckpointError(f"the block '{layers[first_block]}' has no third convolution. {NO_BASIC_BLOCKS}")
    blocks: list[list[str]] = []  # the layers of each stage
    for layer in layers[first_block:]:
        if not blocks or f"{layer}_shortcut/kernel{_END}" in shapes:
            blocks.append([])
        blocks[-1].append(layer)
    filters = shapes[f"{layers[first_block]}_conv1/kernel{_END}"][-1]
    structure = Structure(tuple(map(len, blocks)), filters, stem, shapes.get(kernel, (7, 7, 3, 64))[2])
    kernels = {name: f"{layers[2 * i]}kernel{_END}" for i, name in enumerate(convs)}
    norms = {name: f"{layers[2 * i + 1]}{{}}{_END}" for i, name in enumerate(convs)}
    for conv in structure.convs():
        if conv.place:
            stage, block, number = conv.place
            layer = blocks[stage - 1][block - 1]
            kernels[conv.name] = f"{layer}{f'_conv{number}' if number else '_shortcut'}/kernel{_END}"
            norms[conv.name] = f"{layer}_norm{number}/{{}}{_END}"
    notes = (IMAGENET_VALUES,) if stem == "7x7" else (IMAGENET_VALUES, _ACTIVATION)
    return name_table(structure, kernels, norms, _SETTINGS, notes)


def _stem(layers: Sequence[str], shapes: Mapping[str, Shape]) -> str:
    """Returns the stem of a network: "v1-beta" has three convolutions with f, f and 2 f filters."""
    kernels = [shapes.get(f"{layer}kernel{_END}", ()) for layer in layers[:5:2]]
    if len(kernels) == 3 and all(len(shape) == 4 and shape[0] == 3 for shape in kernels):
        first, second, third = (shape[-1] for shape in kernels)
        return "v1-beta" if first == second == third // 2 else "7x7"
    return "7x7"


TF_VISION = Format(
    "tf_vision",
    "tensorflow/models, official/vision (backbone/layer_with_weights-2/_conv1/kernel)",
    (_BLOCK,),
    tf_vision_table,
)
