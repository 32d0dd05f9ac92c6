"""The colors of masks in pictures, reports and training curves."""

from mtf_imaging.data.description.description import LITS_RULES, Description

# 12 colors that differ by at least 22 (CIE76) in normal vision, protanopia and deuteranopia. Each one is as different
# as possible from all previous ones, so that a few masks contrast most. Colors repeat if there are more masks.
PALETTE = (
    "#56b4e9",
    "#e69f00",
    "#5a2dff",
    "#964b3c",
    "#78ffd2",
    "#874b78",
    "#3c5ac3",
    "#f09669",
    "#a55a00",
    "#00c3b4",
    "#a5ff69",
    "#4bf0ff",
)
# For curves on white, too: both have a contrast of at least 3 to white and black (WCAG 2.2, 1.4.11).
LITS_COLORS = {"liver": "#1fa83c", "lesion": "#ff3b30"}


def mask_colors(description: Description) -> dict[str, str]:
    """Returns the color of each mask, such as "#56b4e9"."""
    if description.rules == LITS_RULES:
        return dict(LITS_COLORS)
    return {name: PALETTE[number % len(PALETTE)] for number, name in enumerate(description.masks)}


def mask_classes(description: Description) -> dict[str, str]:
    """Returns the CSS class of each mask: its name for LiTS, which `report.css` styles, else mask1, mask2, ..."""
    if description.rules == LITS_RULES:
        return {name: name for name in description.masks}
    return {name: f"mask{number}" for number, name in enumerate(description.masks, start=1)}


def mask_style(description: Description) -> str:
    """Returns the CSS rules that color the outlines of masks and hide unchecked masks."""
    colors = mask_colors(description)
    rules = []
    for name, css_class in mask_classes(description).items():
        width = 2.4 if name in description.lesions else 1.2
        # The mask's color overrides the colors of reference and prediction, which differ in their dashes.
        rules.append(f"path.{css_class} {{ stroke: {colors[name]}; stroke-width: {width}; }}\n")
        rules.append(f".hide-{css_class} .outlines .{css_class} {{ display: none; }}\n")
    return "".join(rules)
