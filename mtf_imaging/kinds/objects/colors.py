"""The colors of categories in pictures and in the report."""

from PIL import ImageColor

from mtf_imaging.evaluation.report.colors import PALETTE


def category_color(category: int) -> str:
    """Returns the color of a category, such as "#56b4e9"; more categories than colors repeat them."""
    return PALETTE[category % len(PALETTE)]


def category_rgb(category: int) -> tuple[int, int, int]:
    """Returns the red, green and blue of the color of a category.

    >>> category_color(0), category_rgb(0)
    ('#56b4e9', (86, 180, 233))
    """
    red, green, blue = ImageColor.getrgb(category_color(category))[:3]
    return red, green, blue
