"""The frame of a table that `report.js` sorts: groups of columns, and a button for each column."""

from collections.abc import Sequence

from mtf_imaging.evaluation.report.markup import Markup, tag

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
