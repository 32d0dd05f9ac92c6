"""Numbers and tables of reports; undefined values are dashes with a tooltip, and `report.js` sorts some tables."""

import re
from collections.abc import Iterable, Sequence

from mtf_imaging.evaluation.report.markup import Markup, join, tag
from mtf_imaging.evaluation.volume_scores.measures import FORMATS

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


def metric_cell(value: float | int | None, path: str, why: str) -> Markup:
    """Returns a number cell with its path in `metrics.json` as an attribute."""
    return number_cell(value, path, why, data_metric=path)


def headlines(figures: Iterable[tuple[float | int | None, str, str]]) -> Markup:
    """Returns the headline figures of a report.

    Args:
      figures: the value, the name and an explanation of each figure.
    """
    return join(
        *(tag("div", tag("b", shown(value)), tag("span", name), tag("small", what)) for value, name, what in figures)
    )


def titled_table(title: str, names: Sequence[object], rows: Sequence[Markup]) -> Markup:
    """Returns a table with a title, the names of its columns, if any, and its rows."""
    head = tag("tr", *(tag("th", name, scope="col") for name in names))
    head = tag("thead", head) if names else ""
    table = tag("table", tag("caption", title), head, tag("tbody", *rows), class_="numbers")
    return tag("div", table, class_="scroll", tabindex=0, role="region", aria_label=title)


# (title, {column: (title, explanation)}); the first column links to the pictures of its row.
Groups = list[tuple[str, dict[str, tuple[str, str]]]]


def sortable_table(groups: Groups, rows: Sequence[Markup], sorted_by: str) -> Markup:
    """Returns the table with the id "cases".

    Args:
      groups: the columns by group.
      rows: the rows, in ascending order of the column `sorted_by`.
      sorted_by: the column.
    """
    head = tag("tr", *(tag("th", name, colspan=len(columns), scope="colgroup") for name, columns in groups))
    edges = left_edges(groups)
    buttons = (
        tag(
            "th",
            tag("button", name, type="button", title=what),
            data_key=key,
            scope="col",
            class_=edges[key],
            aria_sort="ascending" if key == sorted_by else None,
        )
        for key, (name, what) in column_titles(groups).items()
    )
    parts = tag("thead", head, tag("tr", *buttons)), tag("tbody", *rows)
    return tag("table", *parts, id="cases", class_="numbers", data_sorted=sorted_by)


def column_titles(groups: Groups) -> dict[str, tuple[str, str]]:
    """Returns the title and explanation of each column."""
    return {key: title for _, columns in groups for key, title in columns.items()}


def left_edges(groups: Groups) -> dict[str, str | None]:
    """Returns the CSS class of each column: "edge" for the first column of each group but the first."""
    starts = {next(iter(columns)) for _, columns in groups[1:]}
    return {key: "edge" if key in starts else None for key in column_titles(groups)}
