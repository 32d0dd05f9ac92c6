"""The variable names of TF-Slim's ResNets, which DeepLab and TensorFlow's Object Detection API also use."""

import re
from collections.abc import Mapping

import mtf_imaging as mi
from mtf_imaging.models.backbones.weights.structure import NameTable, Shape, Structure, name_table

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
    "7x7": 'These weights expect the image scaling "mean": red, green and blue in 0..255 minus the mean of ImageNet.',
    "v1-beta": 'These weights expect the image scaling "unit": red, green and blue in -1..1.',
}


class TFSlim:
    """Checkpoints of `resnet_v1_50`, `resnet_v1_101` and `resnet_v1_152`, and of DeepLab's "beta" variants.

    Attributes:
      name: the name of the format.
      title: the source of such checkpoints.
    """

    name = "tf_slim"
    title = "TF-Slim (resnet_v1_50/block1/unit_1/bottleneck_v1/conv1/weights)"

    def matches(self, shapes: Mapping[str, Shape]) -> bool:
        """Returns whether the variables of a checkpoint, {name: shape}, have the names of this format."""
        return any(map(_UNIT.fullmatch, shapes))

    def table(self, shapes: Mapping[str, Shape]) -> NameTable:
        """Returns the table of a checkpoint.

        Args:
          shapes: the variables of the checkpoint, {name: shape}.

        Raises:
          CheckpointError: the blocks in the checkpoint differ from a `ResNetBackbone`, or the checkpoint has several
              networks.
        """
        units = [match for name in sorted(shapes) if (match := _UNIT.fullmatch(name))]
        scopes = sorted({match[1] for match in units})
        if len(scopes) > 1:
            raise mi.CheckpointError(
                f"the checkpoint has {len(scopes)} networks of TF-Slim, in the scopes {', '.join(map(repr, scopes))}. "
                "Fix: use a checkpoint of one network."
            )
        if units[0][4] == "2":
            raise mi.CheckpointError(
                f"'{units[0][0]}' is a block of ResNet v2, which applies norms before convolutions, but ResNetBackbone "
                "has blocks of ResNet v1 (bottleneck_v1). Fix: use a checkpoint of resnet_v1_50, resnet_v1_101 or "
                "resnet_v1_152."
            )
        scope, numbers = scopes[0], [(int(match[2]), int(match[3])) for match in units]
        blocks = tuple(
            max((unit for own, unit in numbers if own == block), default=1) for block in range(1, max(numbers)[0] + 1)
        )
        filters = shapes[units[0][0]][-1] // 2 ** (int(units[0][2]) - 1)
        is_beta = f"{scope}{_BETA}" in shapes
        channels = shapes.get(f"{scope}{_BETA if is_beta else 'conv1/weights'}", (7, 7, 3, 64))[2]
        structure = Structure(blocks, filters, "v1-beta" if is_beta else "7x7", channels)
        scopes_by_name = {conv.name: f"{scope}{_slim_scope(conv.name)}" for conv in structure.convs()}
        return name_table(
            structure,
            {name: f"{own}/weights" for name, own in scopes_by_name.items()},
            {name: f"{own}/BatchNorm/{{}}" for name, own in scopes_by_name.items()},
            _SETTINGS,
            (_VALUES[structure.stem], _STRIDE),
        )


def _slim_scope(name: str) -> str:
    """Returns the scope of a convolution in TF-Slim, given its name in this package.

    >>> _slim_scope("resnet/stem"), _slim_scope("resnet/stem0"), _slim_scope("resnet/stage0/block2/conv1")
    ('conv1', 'conv1_1', 'block1/unit_3/bottleneck_v1/conv2')
    """
    _, *scopes, conv = name.split("/")
    if not scopes:
        number = conv.removeprefix("stem")
        return f"conv1_{int(number) + 1}" if number else "conv1"
    stage, block = (int(re.sub(r"\D", "", part)) + 1 for part in scopes)
    conv = conv if conv == "shortcut" else f"conv{int(conv.removeprefix('conv')) + 1}"
    return f"block{stage}/unit_{block}/bottleneck_v1/{conv}"
