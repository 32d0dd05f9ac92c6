"""The variable names of the Keras Applications ResNets, in `.keras` and HDF5 files."""

import re
from collections.abc import Mapping

from mtf_imaging.models.backbones.weights.structure import (
    MEAN_VALUES,
    NORM,
    Conv,
    Conversion,
    Format,
    NameTable,
    Shape,
    Structure,
    count_blocks,
    matching,
    mean_without_bias,
    name_table,
    refuse_v2,
)

# Names, strides, paddings and epsilon: keras/src/applications/resnet.py; the momentum is the default of
# keras.layers.BatchNormalization. Image values: the mode "caffe" of keras/src/applications/imagenet_utils.py.
_CONV = re.compile(r"conv(\d+)_block(\d+)_1_conv/(?:kernel|0)")
_SETTINGS = {"padding": "fixed", "pool_padding": "fixed", "strided_conv": "1x1"}
_SETTINGS |= {"norm_epsilon": 1.001e-5, "norm_momentum": 0.99}
_NOTES = (
    f"{MEAN_VALUES} Keras itself takes blue, green and red; import_weights reverses the channels of the first filter.",
    "The convolutions of Keras have biases. import_weights subtracts them from the means of the norms, which has the "
    "same effect.",
)
_V2 = "conv2_block1_preact_bn"


def _table(shapes: Mapping[str, Shape]) -> NameTable:
    """Returns the table of a file of ResNet50, ResNet101 or ResNet152."""
    if any(name.startswith(f"{_V2}/") for name in shapes):
        raise refuse_v2(f"'{_V2}'")
    blocks = count_blocks((int(match[1]) - 1, int(match[2])) for match in matching(_CONV, shapes))
    is_numbered = "conv1_conv/0" in shapes
    kernel, bias = ("0", "1") if is_numbered else ("kernel", "bias")
    # Keras 3 numbers the variables in this order.
    norm = {own: str(number) if is_numbered else name for number, (own, name) in enumerate(NORM.items())}
    *_, channels, filters = shapes.get(f"conv1_conv/{kernel}", (7, 7, 3, 64))
    structure = Structure(blocks, filters, channels=channels)
    layers = {conv.name: _layer(conv) for conv in structure.convs()}
    conversions = {
        f"{conv.name}_norm/moving_mean": mean_without_bias(
            f"{layers[conv.name]}_bn/{norm['moving_mean']}", f"{layers[conv.name]}_conv/{bias}", conv.outputs
        )
        for conv in structure.convs()
    }
    (stem, *_) = structure.convs()
    conversions[f"{stem.name}/filter"] = Conversion(
        {f"{layers[stem.name]}_conv/{kernel}": stem.shape}, lambda value: value[:, :, ::-1]
    )
    return name_table(
        structure,
        {name: f"{layer}_conv/{kernel}" for name, layer in layers.items()},
        {name: f"{layer}_bn/{{}}" for name, layer in layers.items()},
        _SETTINGS,
        _NOTES,
        norm,
        conversions,
    )


def _layer(conv: Conv) -> str:
    """Returns the common part of Keras's names for a convolution and its norm.

    >>> _layer(Conv("resnet/stage0/block2/conv1", 3, 64, 64)), _layer(Conv("resnet/stage1/block0/shortcut", 1, 64, 64))
    ('conv2_block3_2', 'conv3_block1_0')
    """
    if conv.place is None:
        return "conv1"
    stage, block, number = conv.place
    return f"conv{stage + 1}_block{block}_{number}"


KERAS = Format("keras", "Keras applications (conv2_block1_1_conv/kernel, conv2_block1_1_bn/gamma)", (_CONV,), _table)
