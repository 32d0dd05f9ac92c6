"""The categories of an object data set, and the scaling of pixel values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mtf_imaging.data.description.differences import Difference, compared
from mtf_imaging.data.listing.names import is_text
from mtf_imaging.data.pixels.scaling import IMAGENET, Scaled, check_keys, fault_of_scaling
from mtf_imaging.errors import DataError

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

    categories: tuple[tuple[int, str], ...]
    scaling: str = IMAGENET

    def __post_init__(self):
        fault = _fault_of_categories(self.categories) or fault_of_scaling(self.scaling)
        if fault:
            raise DataError(fault)

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
        return {"categories": [list(category) for category in self.categories], "scaling": self.scaling}


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
    categories = tuple(tuple(pair) if isinstance(pair, list) else pair for pair in fields["categories"])
    try:
        return ObjectDescription(categories, fields.get("scaling", IMAGENET))
    except DataError as error:
        raise DataError(f"{where}: {error}") from error


def category_differences(own: ObjectDescription, expected: ObjectDescription) -> list[Difference]:
    """Returns the difference between the categories; the scaling does not count, because a network keeps its own."""
    return compared(
        "categories", *(", ".join(f"{at} {name}" for at, name in one.categories) for one in (own, expected))
    )


def _fault_of_categories(categories: object) -> str | None:
    if not isinstance(categories, tuple) or not categories:
        return f"categories {categories!r}: at least one category is needed. Fix: write {_EXAMPLE}."
    for category in categories:
        is_pair = isinstance(category, tuple) and len(category) == 2
        if not is_pair or not is_integer(category[0]) or not _is_name(category[1]):
            return f"the category {category!r} is not a pair of an integer and a name. Fix: write {_EXAMPLE}."
    for position, what in enumerate(("ID", "name")):
        values = [category[position] for category in categories]
        if len({*values}) < len(values):
            twice = next(value for at, value in enumerate(values) if value in values[:at])
            return f"two categories have the {what} {twice!r}. Fix: give each category its own {what}."
    return None


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and is_text(value)


def is_integer(value: object) -> bool:
    """Returns whether a JSON value is an integer of 64 bits."""
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
