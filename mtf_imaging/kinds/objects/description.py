"""The categories of an object data set, and the scaling of pixel values."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mtf_imaging.data.description.differences import Difference, compared
from mtf_imaging.data.listing.names import is_text
from mtf_imaging.data.pixels.scaling import IMAGENET, SCALINGS, Scaled, check_keys
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.parameters import check_parameters, parameter

_KEYS = ("categories", "scaling")
_EXAMPLE = '{"categories": [[1, "person"], [2, "bicycle"]]}'


@dataclass(frozen=True)
class ObjectDescription(Scaled):
    """The categories of objects, and the scaling of pixel values to network input.

    Attributes:
      categories: pairs (ID, name), one per category. `categories[i]` is the class i of a network. As in
        COCO, the IDs may have gaps.
      scaling: "unit" maps 0..255 to -1..1; "mean" subtracts the ImageNet mean; "imagenet" also divides by the
        standard deviation.
    """

    categories: tuple[tuple[int, str], ...] = parameter(dataclasses.MISSING, least=-(2**63), most=2**63 - 1)
    scaling: str = parameter(IMAGENET, choices=SCALINGS)

    def __post_init__(self):
        check_parameters(self)
        if not all(name.strip() and is_text(name) for name in self.names):
            raise ConfigError("a category has a name without characters, or with control characters.")
        for what, values in (("ID", self.ids), ("name", self.names)):
            if twice := [value for value in values if values.count(value) > 1]:
                raise ConfigError(f"two categories have the {what} {twice[0]!r}.")

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each class."""
        return tuple(name for _, name in self.categories)

    @property
    def ids(self) -> tuple[int, ...]:
        """The category ID of each class."""
        return tuple(category_id for category_id, _ in self.categories)

    def to_fields(self) -> dict[str, Any]:
        """Returns the description as JSON values, which `object_description_from_fields` reads."""
        return dataclasses.asdict(self)


def object_description_from_fields(fields: object, where: str) -> ObjectDescription:
    """Creates a description from JSON values.

    Args:
      fields: an object with the key "categories", pairs of an ID and a name, and the optional key "scaling"; see
        `ObjectDescription`.
      where: the file that contains the fields, for messages.

    Raises:
      DataError: the fields do not describe categories.
    """
    if not isinstance(fields, Mapping) or not isinstance(fields.get("categories"), list | tuple):
        raise DataError(f"{where}: has no list with the key 'categories'. Fix: write {_EXAMPLE}.")
    check_keys(fields, _KEYS, where)
    try:
        return ObjectDescription(fields["categories"], fields.get("scaling", IMAGENET))
    except ConfigError as error:
        raise DataError(f"{where}: {error} Fix: write, for example, {_EXAMPLE}.") from error


def category_differences(own: ObjectDescription, expected: ObjectDescription) -> list[Difference]:
    """Returns the difference between the categories; the scaling does not count, because a network keeps its own."""
    return compared(
        "categories", *(", ".join(f"{at} {name}" for at, name in one.categories) for one in (own, expected))
    )


def is_integer(value: object) -> bool:
    """Returns whether a JSON value is an integer of 64 bits."""
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
