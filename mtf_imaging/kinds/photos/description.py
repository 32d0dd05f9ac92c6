"""The classes of a photo data set, their colors, and the scaling of pixel values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtf_imaging.data.description.differences import Difference, compared, refuse_differences
from mtf_imaging.data.listing.names import is_text
from mtf_imaging.data.pixels.scaling import UNIT, Scaled, check_keys, fault_of_scaling
from mtf_imaging.errors import DataError

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
    colors: tuple[Color, ...]
    ignore_label: int = 255
    scaling: str = UNIT
    values: tuple[tuple[int, int], ...] = ()

    def __post_init__(self):
        fault = (
            _fault_of_classes(self.classes)
            or _fault_of_colors(self.classes, self.colors)
            or _fault_of_ignore_label(self.ignore_label, len(self.classes))
            or fault_of_scaling(self.scaling)
            or _fault_of_values(self.values, self.ignore_label, len(self.classes))
        )
        if fault:
            raise DataError(fault)

    @property
    def ignore(self) -> int:
        """The label of pixels without a class."""
        return self.ignore_label

    @property
    def outputs(self) -> dict[str, tuple[int, ...]]:
        """{class: its label} of the values that the network predicts per pixel."""
        return {name: (label,) for label, name in enumerate(self.classes)}

    def stored_value(self, label: int) -> int:
        """Returns the value that label images store for a label."""
        return next((value for value, mapped in self.values if mapped == label), label)

    def to_fields(self) -> dict[str, Any]:
        """Returns the description as JSON values, which `photo_description_from_fields` reads."""
        return {
            "classes": list(self.classes),
            "colors": [list(color) for color in self.colors],
            "ignore_label": self.ignore_label,
            "scaling": self.scaling,
            "values": [list(pair) for pair in self.values],
        }


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
    elif not isinstance(classes, list):
        raise DataError(f"{where}: 'classes' is {classes!r}, not an object or a list of names. Fix: write {_EXAMPLE}.")
    elif colors is None:
        colors = [palette_color(label) for label in range(len(classes))]
    try:
        return PhotoDescription(
            classes=tuple(classes),
            colors=_tuples(colors),
            ignore_label=fields.get("ignore_label", 255),
            scaling=fields.get("scaling", UNIT),
            values=_tuples(fields.get("values", [])),
        )
    except DataError as error:
        raise DataError(f"{where}: {error}") from error


def _tuples(rows: object) -> object:
    """Converts lists in a list to tuples; returns other values unchanged."""
    if not isinstance(rows, list):
        return rows
    return tuple(tuple(row) if isinstance(row, list) else row for row in rows)


def _is_byte(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < NUM_VALUES


def _fault_of_classes(classes: Sequence) -> str | None:
    if not isinstance(classes, tuple) or not 1 <= len(classes) < NUM_VALUES:
        count = len(classes) if isinstance(classes, tuple) else repr(classes)
        return f"classes: {count}, not 1 to {NUM_VALUES - 1} names. Fix: name this many classes."
    for label, name in enumerate(classes):
        if not isinstance(name, str) or not name.strip() or not is_text(name):
            return (
                f"the class with label {label} has the name {name!r}. Fix: give it a name of at least one character "
                "and no control characters."
            )
        if name in classes[:label]:
            return (
                f"two classes have the name '{name}', those of the labels {classes.index(name)} and {label}. "
                "Fix: give each class a name of its own."
            )
    return None


def _fault_of_colors(classes: Sequence[str], colors: object) -> str | None:
    if not isinstance(colors, tuple) or len(colors) != len(classes):
        count = len(colors) if isinstance(colors, tuple) else repr(colors)
        return f"there are {len(classes)} classes, but the colors are {count}. Fix: give a color for each class."
    for name, color in zip(classes, colors):
        if not isinstance(color, tuple) or len(color) != 3 or not all(map(_is_byte, color)):
            shown = list(color) if isinstance(color, tuple) else color
            return (
                f"the color of the class '{name}' is {shown!r}, not three integers in 0..255. "
                "Fix: write red, green and blue, such as [128, 64, 128]."
            )
    return None


def _fault_of_ignore_label(ignore_label: object, num_classes: int) -> str | None:
    if not _is_byte(ignore_label):
        return f"ignore_label {ignore_label!r} is not an integer in 0..255. Fix: use 255."
    if ignore_label < num_classes:
        return f"ignore_label {ignore_label} is the label of one of the {num_classes} classes. Fix: use 255."
    return None


def _fault_of_values(values: object, ignore_label: int, num_classes: int) -> str | None:
    if not isinstance(values, tuple):
        return f"values {values!r} is not a list. Fix: write pairs of a value and a label, such as [[7, 0], [8, 1]]."
    for pair in values:
        if not isinstance(pair, tuple) or len(pair) != 2 or not all(map(_is_byte, pair)):
            shown = list(pair) if isinstance(pair, tuple) else pair
            return f"values: {shown!r} is not a pair of a value and a label in 0..255. Fix: write, for example, [7, 0]."
        if pair[1] >= num_classes:
            return (
                f"values: {list(pair)} maps the value {pair[0]} to the label {pair[1]}, but there are {num_classes} "
                f"classes. Fix: use a label in 0..{num_classes - 1}."
            )
        if pair[0] == ignore_label:
            return f"values: {list(pair)} maps the ignore_label {ignore_label} to a class. Fix: remove this pair."
    stored = [value for value, _ in values]
    twice = sorted({value for value in stored if stored.count(value) > 1})
    if twice:
        return f"values: maps the value {twice[0]} twice. Fix: keep one of its pairs."
    missing = sorted({*range(num_classes)} - {label for _, label in values}) if values else []
    if missing:
        return f"values: no value has the label {missing[0]}. Fix: add a pair for this class, or remove the class."
    return None


_VOC_CLASSES = (
    "background",
    "aeroplane",
    "bicycle",
    "bird",
    "boat",
    "bottle",
    "bus",
    "car",
    "cat",
    "chair",
    "cow",
    "diningtable",
    "dog",
    "horse",
    "motorbike",
    "person",
    "pottedplant",
    "sheep",
    "sofa",
    "train",
    "tvmonitor",
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
