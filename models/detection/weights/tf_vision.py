"""The shared parts of official/vision detectors: the names of a ResNet, a feature pyramid and head layers."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import mtf_imaging as mi
from mtf_imaging.models.backbones.weights.structure import (
    NORM,
    Conversion,
    NameTable,
    Shape,
    matching,
    mean_without_bias,
)
from mtf_imaging.models.backbones.weights.tf_vision import tf_vision_table

# github.com/tensorflow/models/tree/master/official/vision: modeling/decoders/fpn.py, modeling/heads/*.py, and the
# defaults of configs/retinanet.py and configs/maskrcnn.py.
END = "/.ATTRIBUTES/VARIABLE_VALUE"
_DECODER = re.compile(rf"(.*?decoder/)layer_with_weights-(\d+)/kernel{END}")
# tf.train.Checkpoint numbers the layers of the pyramid by their distance from its outputs, so that the order depends on
# the levels. lateral: 1 x 1, level: 3 x 3. Norms follow, from the finest to the coarsest level.
_PYRAMIDS = {
    (3, 7): ("lateral5", "lateral4", "level5", "lateral3", "level6", "level3", "level4", "level7"),
    (2, 6): ("lateral5", "lateral4", "lateral3", "lateral2", "level5", "level2", "level3", "level4", "level6"),
}
_LAST_OF_BACKBONE = 5
# COCO's category numbers range from 1 to 90, but these numbers are unused. Number 0 is the background.
_COCO_CLASSES = 91
_COCO_UNUSED = (12, 26, 29, 30, 45, 66, 68, 69, 71, 83)
COCO_NOTE = (
    "The checkpoint has 91 classes, the numbers of COCO's categories. The 80 classes with a category are imported in "
    "their order, which is that of the classes of COCO as a data set of this package."
)


def kept_classes(number: int) -> list[int]:
    """Returns the imported classes of a checkpoint with `number` classes. Class 0 is the background."""
    return [i for i in range(number) if number != _COCO_CLASSES or i not in _COCO_UNUSED]


class Table:
    """Collects the variables of a detector: their names and shapes in a checkpoint, and conversions.

    Args:
      shapes: the variables of the checkpoint, {name: shape}.

    Attributes:
      backbone: the table of the backbone.
      levels: the levels of the pyramid.
      filters: number of channels of the pyramid.

    Raises:
      CheckpointError: the backbone is not a `ResNetBackbone`, or the pyramid has different levels.
    """

    def __init__(self, shapes: Mapping[str, Shape]) -> None:
        self.backbone = tf_vision_table(shapes)
        self._names, self._shapes = dict(self.backbone.names), dict(self.backbone.shapes)
        self._conversions = dict(self.backbone.conversions)
        self._checkpoint = shapes
        self.levels, self.filters = self._add_pyramid()

    def shape(self, name: str) -> Shape:
        """Returns the shape of a checkpoint variable, given its name without the ending.

        Raises:
          CheckpointError: it is missing.
        """
        if f"{name}{END}" not in self._checkpoint:
            raise mi.CheckpointError(f"'{name}{END}' is missing. Fix: use a complete checkpoint of a detector.")
        return tuple(self._checkpoint[f"{name}{END}"])

    def count(self, prefix: str) -> int:
        """Returns the number of layers in a list, such as "head/_cls_convs/"."""
        pattern = re.compile(rf"{re.escape(prefix)}(\d+)/kernel{END}")
        return len([name for name in self._checkpoint if pattern.fullmatch(name)])

    def copy(self, own: str, name: str, shape: Shape) -> None:
        """Adds a copied variable."""
        self._names[own], self._shapes[own] = f"{name}{END}", shape

    def reshape(self, own: str, name: str, source: Shape, shape: Shape) -> None:
        """Adds a variable that has the same values in another shape."""
        self.convert(own, name, source, shape, lambda value: value.reshape(shape))

    def convert(self, own: str, name: str, source: Shape, shape: Shape, convert: Callable[..., Any]) -> None:
        """Adds a variable that is computed from a checkpoint variable with the shape `source`."""
        self._conversions[own], self._shapes[own] = Conversion({f"{name}{END}": source}, convert), shape

    def conv(self, own: str, name: str, shape: Shape) -> None:
        """Adds the filter and the bias of a convolution."""
        self.copy(f"{own}/filter", f"{name}/kernel", shape)
        self.copy(f"{own}/bias", f"{name}/bias", shape[-1:])

    def norm(self, own: str, name: str, size: int, bias: str | None = None) -> None:
        """Adds the variables of a norm.

        Args:
          own: its scope in this package.
          name: its scope in the checkpoint.
          size: number of channels.
          bias: the bias of the previous layer, which has no bias in this package. It is subtracted from the mean.
        """
        for ours, theirs in NORM.items():
            self.copy(f"{own}/{ours}", f"{name}/{theirs}", (size,))
        if bias:
            mean = f"{own}/moving_mean"
            self._conversions[mean] = mean_without_bias(self._names.pop(mean), f"{bias}{END}", size)

    def finish(
        self, title: str, owner: str, norm: Mapping[str, float], settings: Mapping[str, object], notes: tuple[str, ...]
    ) -> NameTable:
        """Returns the table.

        Args:
          title: the name of the detector, which precedes the name of the backbone.
          owner: the class of the detector in gin files.
          norm: the momentum and the epsilon of all norms.
          settings: the settings of the detector, in addition to those of its norms and of its pyramid.
          notes: the notes, in addition to the backbone's notes.
        """
        pyramid = {"filters": self.filters, "min_level": self.levels[0], "max_level": self.levels[-1]}
        return NameTable(
            f"{title} with {self.backbone.title}",
            self._names,
            self._shapes,
            {**self.backbone.settings, **norm},
            (*self.backbone.notes, *notes),
            self._conversions,
            {f"{owner}.{name}": value for name, value in {**settings, **pyramid, **norm}.items()},
        )

    def _add_pyramid(self) -> tuple[range, int]:
        matches = matching(_DECODER, self._checkpoint)
        if not matches:
            raise mi.CheckpointError(
                "there is no feature pyramid 'decoder/layer_with_weights-0'. Fix: use a checkpoint with an FPN, or "
                "import the backbone only, as tf_vision."
            )
        prefix = matches[0][1]
        kernels = {int(match[2]): self._checkpoint[match[0]] for match in matches}
        laterals = sum(shape[0] == 1 for shape in kernels.values())
        first = _LAST_OF_BACKBONE - laterals + 1
        levels = (first, first + len(kernels) - laterals - 1)
        if levels not in _PYRAMIDS:
            known = " and ".join(f"{low} to {high}" for low, high in _PYRAMIDS)
            raise mi.CheckpointError(
                f"the feature pyramid '{prefix}' has {laterals} 1 x 1 and {len(kernels) - laterals} 3 x 3 "
                f"convolutions. Only pyramids of the levels {known} are supported. Fix: import the backbone only, as "
                "tf_vision."
            )
        filters = kernels[0][-1]
        names = _PYRAMIDS[levels]
        for number, own in enumerate(names):
            size, inputs = 3, filters
            if own.startswith("lateral"):
                size, inputs = 1, self.backbone.shapes[f"resnet/stage{int(own[-1]) - 2}/block0/conv2/filter"][-1]
            self.conv(f"fpn/{own}", f"{prefix}layer_with_weights-{number}", (size, size, inputs, filters))
        all_levels = range(levels[0], levels[1] + 1)
        for number, level in enumerate(all_levels, len(names)):
            self.norm(f"fpn/level{level}_norm", f"{prefix}layer_with_weights-{number}", filters)
        return all_levels, filters
