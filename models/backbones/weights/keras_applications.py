"""The variable names of the Keras Applications ResNets, in `.keras` and HDF5 files."""

import re
from collections.abc import Mapping

import mtf_imaging as mi
from mtf_imaging.models.backbones.weights.structure import Conv, Conversion, NameTable, Shape, Structure

# Names, strides, paddings and epsilon: keras/src/applications/resnet.py; the momentum is the default of
# keras.layers.BatchNormalization. Image values: the mode "caffe" of keras/src/applications/imagenet_utils.py.
_CONV = re.compile(r"conv(\d+)_block(\d+)_1_conv/(?:kernel|0)")
_FIRST_STAGE = 2  # conv1 is the stem
_SETTINGS = {"padding": "fixed", "pool_padding": "fixed", "strided_conv": "1x1"}
_SETTINGS |= {"norm_epsilon": 1.001e-5, "norm_momentum": 0.99}
_NOTES = (
    'These weights expect the image scaling "mean": red, green and blue in 0..255 minus the mean of ImageNet. Keras '
    "itself takes blue, green and red; import_weights reverses the channels of the first filter.",
    "The convolutions of Keras have biases. import_weights subtracts them from the means of the norms, which has the "
    "same effect.",
)
_NORM = ("gamma", "beta", "moving_mean", "moving_variance")  # the order in which Keras 3 numbers them
_V2 = "conv2_block1_preact_bn"


class KerasApplications:
    """Weights of ResNet50, ResNet101 and ResNet152 from Keras Applications: `conv2_block1_1_conv`.

    Attributes:
      name: the name of the format.
      title: the source of such files.
    """

    name = "keras"
    title = "Keras applications (conv2_block1_1_conv/kernel, conv2_block1_1_bn/gamma)"

    def matches(self, shapes: Mapping[str, Shape]) -> bool:
        """Returns whether the variables of a file, {name: shape}, have the names of this format."""
        return any(map(_CONV.fullmatch, shapes))

    def table(self, shapes: Mapping[str, Shape]) -> NameTable:
        """Returns the table of a file.

        Args:
          shapes: the variables of the file, {name: shape}.

        Raises:
          CheckpointError: the blocks in the file differ from a `ResNetBackbone`.
        """
        if any(name.startswith(f"{_V2}/") for name in shapes):
            raise mi.CheckpointError(
                f"'{_V2}' belongs to ResNet v2, which applies norms before convolutions, but ResNetBackbone has blocks "
                "of ResNet v1. Fix: use weights of ResNet50, ResNet101 or ResNet152."
            )
        numbers = [(int(match[1]), int(match[2])) for name in shapes if (match := _CONV.fullmatch(name))]
        stages = range(_FIRST_STAGE, max(numbers)[0] + 1)
        blocks = tuple(max((block for own, block in numbers if own == stage), default=1) for stage in stages)
        is_numbered = "conv1_conv/0" in shapes
        *_, channels, filters = shapes.get(f"conv1_conv/{'0' if is_numbered else 'kernel'}", (7, 7, 3, 64))
        structure = Structure(blocks, filters, channels=channels)
        names: dict[str, str] = {}
        conversions: dict[str, Conversion] = {}
        for conv in structure.convs():
            layer = _layer(conv.name)
            kernel, bias = (f"{layer}_conv/{name}" for name in (("0", "1") if is_numbered else ("kernel", "bias")))
            norm = {name: f"{layer}_bn/{i if is_numbered else name}" for i, name in enumerate(_NORM)}
            names[f"{conv.name}/filter"] = kernel
            names[f"{conv.name}_norm/scale"] = norm["gamma"]
            names[f"{conv.name}_norm/offset"] = norm["beta"]
            names[f"{conv.name}_norm/moving_variance"] = norm["moving_variance"]
            conversions[f"{conv.name}_norm/moving_mean"] = _mean_without_bias(norm["moving_mean"], bias, conv)
        (stem, *_) = structure.convs()
        kernel = names.pop(f"{stem.name}/filter")
        shape = (stem.kernel_size, stem.kernel_size, stem.inputs, stem.outputs)
        conversions[f"{stem.name}/filter"] = Conversion({kernel: shape}, lambda value: value[:, :, ::-1])
        settings = {**structure.settings, **_SETTINGS}
        return NameTable(structure.title, names, structure.variables(), settings, _NOTES, conversions)


def _mean_without_bias(mean: str, bias: str, conv: Conv) -> Conversion:
    """Returns the conversion of a norm's mean after a convolution with a bias."""
    return Conversion({mean: (conv.outputs,), bias: (conv.outputs,)}, lambda value, bias: value - bias)


def _layer(name: str) -> str:
    """Returns the common part of Keras's names for a convolution and its norm, given the name in this package.

    >>> _layer("resnet/stem"), _layer("resnet/stage0/block2/conv1"), _layer("resnet/stage1/block0/shortcut")
    ('conv1', 'conv2_block3_2', 'conv3_block1_0')
    """
    if name == "resnet/stem":
        return "conv1"
    _, stage, block, conv = name.split("/")
    number = 0 if conv == "shortcut" else int(conv.removeprefix("conv")) + 1
    stage_number = int(stage.removeprefix("stage")) + _FIRST_STAGE
    return f"conv{stage_number}_block{int(block.removeprefix('block')) + 1}_{number}"
