"""The variable names of TF-Slim's ResNets, which DeepLab and TensorFlow's Object Detection API also use."""

import re
from collections.abc import Mapping

from mtf_imaging.models.backbones.weights.structure import (
    MEAN_VALUES,
    Conv,
    Format,
    NameTable,
    Shape,
    Structure,
    count_blocks,
    matching,
    name_table,
    refuse_v2,
    single_prefix,
)

# Names and strides: research/slim/nets/resnet_v1.py and resnet_utils.py (epsilon, decay, padding), and the stem of
# three convolutions research/deeplab/core/resnet_v1_beta.py, in github.com/tensorflow/models. Image values:
# research/slim/preprocessing/vgg_preprocessing.py, and _PREPROCESS_FN in research/deeplab/core/feature_extractor.py.
_UNIT = re.compile(r"(.*?)block(\d+)/unit_(\d+)/bottleneck_v([12])/conv1/weights")
_BETA = "conv1_1/weights"
_SETTINGS = {"padding": "fixed", "norm_epsilon": 1e-5, "norm_momentum": 0.997}
_STRIDE = (
    "In TF-Slim, the last block of a stage has the stride of the next stage. In ResNetBackbone, the first block of the "
    "next stage has it. The weights fit, but the features differ, so that training must adapt them."
)
_VALUES = {
    "7x7": MEAN_VALUES,
    "v1-beta": 'These weights expect the image scaling "unit": red, green and blue in -1..1.',
}


def _table(shapes: Mapping[str, Shape]) -> NameTable:
    """Returns the table of a checkpoint of ResNet-50, 101 or 152, or of one of DeepLab's "beta" variants."""
    units = matching(_UNIT, shapes)
    scope = single_prefix(units, "TF-Slim")
    if units[0][4] == "2":
        raise refuse_v2(f"'{units[0][0]}'")
    filters = shapes[units[0][0]][-1] // 2 ** (int(units[0][2]) - 1)
    is_beta = f"{scope}{_BETA}" in shapes
    channels = shapes.get(f"{scope}{_BETA if is_beta else 'conv1/weights'}", (7, 7, 3, 64))[2]
    blocks = count_blocks((int(match[2]), int(match[3])) for match in units)
    structure = Structure(blocks, filters, "v1-beta" if is_beta else "7x7", channels)
    scopes = {conv.name: f"{scope}{_slim_scope(conv)}" for conv in structure.convs()}
    return name_table(
        structure,
        {name: f"{own}/weights" for name, own in scopes.items()},
        {name: f"{own}/BatchNorm/{{}}" for name, own in scopes.items()},
        _SETTINGS,
        (_VALUES[structure.stem], _STRIDE),
    )


def _slim_scope(conv: Conv) -> str:
    """Returns the scope of a convolution in TF-Slim.

    >>> _slim_scope(Conv("resnet/stem0", 3, 3, 64)), _slim_scope(Conv("resnet/stage0/block2/conv1", 3, 64, 64))
    ('conv1_1', 'block1/unit_3/bottleneck_v1/conv2')
    """
    if conv.place is None:
        number = conv.name.removeprefix("resnet/stem")
        return f"conv1_{int(number) + 1}" if number else "conv1"
    stage, block, number = conv.place
    return f"block{stage}/unit_{block}/bottleneck_v1/{f'conv{number}' if number else 'shortcut'}"


TF_SLIM = Format("tf_slim", "TF-Slim (resnet_v1_50/block1/unit_1/bottleneck_v1/conv1/weights)", (_UNIT,), _table)
