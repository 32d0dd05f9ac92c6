"""The colors of categories in pictures and reports."""

from PIL import ImageColor

from mtf_imaging.evaluation.report.colors import PALETTE


def category_color(category: int) -> str:
    """Returns the color of a category, such as "#56b4e9"; colors repeat if there are more categories."""
    return PALETTE[category % len(PALETTE)]


def category_rgb(category: int) -> tuple[int, int, int]:
    """Returns the red, green and blue values of a category's color.

    >>> category_color(0), category_rgb(0)
    ('#56b4e9', (86, 180, 233))
    """
    red, green, blue = ImageColor.getrgb(category_color(category))[:3]
    return red, green, blue
