"""The classes of a photo data set, their colors, and the scaling of pixel values."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtf_imaging.data.description.differences import Difference, compared, refuse_differences
from mtf_imaging.data.listing.names import is_text
from mtf_imaging.data.pixels.scaling import SCALINGS, UNIT, Scaled, check_keys
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.parameters import check_parameters, parameter

Color = tuple[int, int, int]

NUM_VALUES = 256  # label images store 8 bits per pixel
_KEYS = ("classes", "colors", "ignore_label", "scaling", "values")
_EXAMPLE = '{"classes": {"background": [0, 0, 0], "road": [128, 64, 128]}, "ignore_label": 255}'


def palette_color(value: int) -> Color:
    """Returns the PASCAL VOC color of a label value.

    The bits of the value are distributed over red, green and blue, from the highest bit of each color down.

    >>> palette_color(1), palette_color(255)
    ((128, 0, 0), (224, 224, 192))
    """
    color = [0, 0, 0]
    for bit in range(8):
        for channel in range(3):
            color[channel] |= (value >> (3 * bit + channel) & 1) << (7 - bit)
    return color[0], color[1], color[2]


@dataclass(frozen=True)
class PhotoDescription(Scaled):
    """The meaning of photo labels, and the scaling of pixel values to network input.

    Attributes:
      classes: the name of each class; `classes[i]` has the label i.
      colors: the color of each class, (red, green, blue) in 0..255.
      ignore_label: the label of pixels without a class. Losses and scores ignore these pixels.
      scaling: "unit" maps 0..255 to -1..1; "mean" subtracts the ImageNet mean; "imagenet" also divides by the
        standard deviation.
      values: pairs (value in label images, label of its class), at least one per class. All other values
        become `ignore_label`. Empty if label images store labels.
    """

    classes: tuple[str, ...]
    colors: tuple[Color, ...] = parameter(dataclasses.MISSING, least=0, most=255)
    ignore_label: int = parameter(255, least=0, most=255)
    scaling: str = parameter(UNIT, choices=SCALINGS)
    values: tuple[tuple[int, int], ...] = parameter((), least=0, most=255, can_be_empty=True)

    def __post_init__(self):
        check_parameters(self)
        number, stored = len(self.classes), [value for value, _ in self.values]
        labels = {label for _, label in self.values}
        faults = {
            f"{number} names, but at most {NUM_VALUES - 1} are possible": number >= NUM_VALUES,
            "a name without characters, or with control characters": not all(map(_is_name, self.classes)),
            "a name twice": len({*self.classes}) < number,
            f"{number} names, but {len(self.colors)} colors": len(self.colors) != number,
            f"the ignore_label {self.ignore_label} as a label": self.ignore_label < number,
            f"a value whose label is not in 0..{number - 1}": not labels <= {*range(number)},
            f"the ignore_label {self.ignore_label} as a value": self.ignore_label in stored,
            "a value twice": len({*stored}) < len(stored),
            "a label without a value": bool(labels) and len(labels) < number,
        }
        for fault, is_present in faults.items():
            if is_present:
                raise ConfigError(f"the classes have {fault}.")

    @property
    def ignore(self) -> int:
        """The label of pixels without a class."""
        return self.ignore_label

    @property
    def outputs(self) -> dict[str, tuple[int, ...]]:
        """The label of each class that the network predicts per pixel, {class: label}."""
        return {name: (label,) for label, name in enumerate(self.classes)}

    def stored_value(self, label: int) -> int:
        """Returns the value that label images store for a label."""
        return next((value for value, mapped in self.values if mapped == label), label)

    def to_fields(self) -> dict[str, Any]:
        """Returns the description as JSON values, which `photo_description_from_fields` reads."""
        return dataclasses.asdict(self)


def photo_description_from_fields(fields: object, where: str) -> PhotoDescription:
    """Creates a description from JSON values.

    Args:
      fields: an object with the key "classes": {name: [red, green, blue]}, or a list of names. The optional keys are
        "colors", a list that accompanies a list of names, "ignore_label", "scaling" and "values"; see
        `PhotoDescription`. Without colors, the classes get PASCAL VOC's colors.
      where: the file that contains the fields, for messages.

    Raises:
      DataError: the fields do not describe classes.
    """
    if not isinstance(fields, Mapping) or "classes" not in fields:
        raise DataError(f"{where}: does not contain an object with the key 'classes'. Fix: write {_EXAMPLE}.")
    check_keys(fields, _KEYS, where)
    classes, colors = fields["classes"], fields.get("colors")
    if isinstance(classes, Mapping):
        if colors is not None:
            raise DataError(
                f"{where}: states the colors twice, in 'classes' and in 'colors'. "
                "Fix: remove 'colors', or make 'classes' a list of names."
            )
        classes, colors = list(classes), list(classes.values())
    elif colors is None and isinstance(classes, list | tuple):
        colors = [palette_color(label) for label in range(len(classes))]
    try:
        return PhotoDescription(
            classes=classes,
            colors=colors,
            ignore_label=fields.get("ignore_label", 255),
            scaling=fields.get("scaling", UNIT),
            values=fields.get("values", ()),
        )
    except ConfigError as error:
        raise DataError(f"{where}: {error} Fix: write, for example, {_EXAMPLE}.") from error


def _is_name(name: str) -> bool:
    return bool(name.strip()) and is_text(name)


_VOC_CLASSES = (
    *("background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *("diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"),
)
VOC = PhotoDescription(_VOC_CLASSES, tuple(palette_color(label) for label in range(len(_VOC_CLASSES))))

# (name, color, value in files that end with labelIds.png)
_CITYSCAPES_CLASSES = (
    ("road", (128, 64, 128), 7),
    ("sidewalk", (244, 35, 232), 8),
    ("building", (70, 70, 70), 11),
    ("wall", (102, 102, 156), 12),
    ("fence", (190, 153, 153), 13),
    ("pole", (153, 153, 153), 17),
    ("traffic light", (250, 170, 30), 19),
    ("traffic sign", (220, 220, 0), 20),
    ("vegetation", (107, 142, 35), 21),
    ("terrain", (152, 251, 152), 22),
    ("sky", (70, 130, 180), 23),
    ("person", (220, 20, 60), 24),
    ("rider", (255, 0, 0), 25),
    ("car", (0, 0, 142), 26),
    ("truck", (0, 0, 70), 27),
    ("bus", (0, 60, 100), 28),
    ("train", (0, 80, 100), 31),
    ("motorcycle", (0, 0, 230), 32),
    ("bicycle", (119, 11, 32), 33),
)
CITYSCAPES = PhotoDescription(
    classes=tuple(name for name, _, _ in _CITYSCAPES_CLASSES),
    colors=tuple(color for _, color, _ in _CITYSCAPES_CLASSES),
    values=tuple((value, label) for label, (_, _, value) in enumerate(_CITYSCAPES_CLASSES)),
)


def photo_differences(own: PhotoDescription, expected: PhotoDescription) -> list[Difference]:
    """Returns the differences that change the meaning of a label.

    Differences in colors, scaling and label image values do not count: label images are read with the values of their
    own folder, and a network keeps the scaling of its training data.
    """
    return [
        *compared("classes", ", ".join(own.classes), ", ".join(expected.classes)),
        *compared("ignore_label", str(own.ignore_label), str(expected.ignore_label)),
    ]


def check_same_classes(path: str | Path, own: PhotoDescription, expected: PhotoDescription) -> None:
    """Checks that a folder of photos has the same classes as the training data.

    Args:
      path: the folder.
      own: its description.
      expected: the description of the training data.

    Raises:
      DataError: the classes or the ignore label differ.
    """
    fix = "give data like the training data."
    refuse_differences(f"{path}: has", photo_differences(own, expected), "the network was trained with", fix)
