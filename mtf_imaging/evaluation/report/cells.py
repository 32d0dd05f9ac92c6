"""Formatted numbers and table cells of the report; undefined values are dashes with a tooltip."""

import re

from mtf_imaging.evaluation.report.markup import Markup, tag
from mtf_imaging.evaluation.scoring.measures import FORMATS

DASH = "\N{EN DASH}"


def shown(value: float | int | None, name: str = "") -> str:
    """Formats a number for display.

    >>> shown(0.98765), shown(1.5, "liver_rvd"), shown(12.3456, "lesion.assd"), shown(3), shown(None) == DASH
    ('0.988', '+1.500', '12.35', '3', True)

    Args:
      value: the number; None becomes a dash.
      name: a name that ends with the measure, which determines the format.
    """
    if value is None:
        return DASH
    if isinstance(value, int):
        return str(value)
    measure = re.split(r"[._]", name)[-1]
    return f"{value:{FORMATS.get(measure, '.3f')}}"


def number_cell(value: float | int | None, name: str, why: str, **attributes: object) -> Markup:
    """Returns a table cell that also stores the full number, for sorting.

    Args:
      value: the number.
      name: the measure name; see `shown`.
      why: the tooltip of an undefined value.
      attributes: HTML attributes of the cell.
    """
    if value is None:
        attributes |= {"title": why, "class_": f"undefined {attributes.get('class_') or ''}".strip()}
    return tag("td", shown(value, name), data_value=value, **attributes)


def metric_cell(value, path, why):
    """Returns a number cell with its path in `metrics.json` as an attribute."""
    return number_cell(value, path, why, data_metric=path)


def titled_table(title, names, rows):
    head = tag("tr", *(tag("th", name, scope="col") for name in names))
    head = tag("thead", head) if names else ""
    table = tag("table", tag("caption", title), head, tag("tbody", *rows), class_="numbers")
    return tag("div", table, class_="scroll", tabindex=0, role="region", aria_label=title)
